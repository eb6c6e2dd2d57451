BEGIN TRANSACTION;
CREATE TABLE perfgate_records (
	seq INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	model_key TEXT NOT NULL, 
	workload_key TEXT NOT NULL, 
	mode TEXT NOT NULL, 
	dtype TEXT NOT NULL, 
	device TEXT NOT NULL, 
	compile TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	commit_id TEXT NOT NULL, 
	hardware_id TEXT NOT NULL, 
	software_id TEXT NOT NULL, 
	recorded_at TEXT NOT NULL, 
	run_nonce TEXT NOT NULL, 
	document TEXT NOT NULL, 
	repository TEXT, 
	run_id TEXT, 
	workflow TEXT, 
	event TEXT, 
	batch BIGINT NOT NULL, 
	attempt BIGINT, 
	pull_request BIGINT, 
	file_count INTEGER NOT NULL, 
	PRIMARY KEY (seq), 
	CONSTRAINT perfgate_records_id_key UNIQUE (id)
);
INSERT INTO "perfgate_records" VALUES(1,'a0fddb7f9c2aad8f33dfd9d7eaa24d745be5c4d1bc1cae1cbde43b6b5c2a6e8f','resnet','resnet/infer/b8/float32/cpu/eager','infer','float32','cpu','eager','base','356a192b7913b04c54574d18c28d46e6395428ab','cpu-1','eef877f8815f','2025-01-31T12:00:00Z','run-1','{"attempt":1,"commit":"356a192b7913b04c54574d18c28d46e6395428ab","files":["models/resnet.py"],"hardware":{"cores":"8","cpu":"Example 9000"},"hardware_id":"cpu-1","metrics":{"latency":13900000.0,"peak_memory":0.0},"model_key":"resnet","namespace":"base","recorded_at":"2025-01-31T12:00:00Z","run_id":"77","run_nonce":"run-1","samples":{"latency":[13900000.0,13900001.0]},"software":{"python":"3.11.9","threads":"1","torch":"2.6.0"},"software_id":"eef877f8815f","structure":{"Conv2d":20,"layers":[{"in":3,"share":0.5}]},"units":{"latency":"ns","peak_memory":"byte"},"workload":{"batch":8,"compile":"eager","device":"cpu","dtype":"float32","mode":"infer","model":"resnet"}}',NULL,'77',NULL,NULL,8,1,NULL,1);
INSERT INTO "perfgate_records" VALUES(2,'7f9f56156a4da1bac542b370bae07517efb401d202ace1fe397f30436252d158','resnet','resnet/infer/b8/float32/cpu/eager','infer','float32','cpu','eager','base','da4b9237bacccdf19c0760cab7aec4a8359010b0','cpu-1','eef877f8815f','2025-01-31T12:00:00Z','run-2','{"attempt":1,"commit":"da4b9237bacccdf19c0760cab7aec4a8359010b0","files":["models/resnet.py"],"hardware":{"cores":"8","cpu":"Example 9000"},"hardware_id":"cpu-1","metrics":{"latency":13900000.0,"peak_memory":0.0},"model_key":"resnet","namespace":"base","recorded_at":"2025-01-31T12:00:00Z","run_id":"77","run_nonce":"run-2","samples":{"latency":[13900000.0,13900001.0]},"software":{"python":"3.11.9","threads":"1","torch":"2.6.0"},"software_id":"eef877f8815f","structure":{"Conv2d":20,"layers":[{"in":3,"share":0.5}]},"units":{"latency":"ns","peak_memory":"byte"},"workload":{"batch":8,"compile":"eager","device":"cpu","dtype":"float32","mode":"infer","model":"resnet"}}',NULL,'77',NULL,NULL,8,1,NULL,1);
INSERT INTO "perfgate_records" VALUES(3,'676d9ff137ee008834d86e85456208efa57bc6ab733d7d27a7c17e994b589ffb','resnet','resnet/infer/b8/float32/cpu/eager','infer','float32','cpu','eager','pr/7','77de68daecd823babbb58edb1c8e14d7106e83bb','cpu-1','eef877f8815f','2025-01-31T12:00:00Z','run-3','{"attempt":1,"commit":"77de68daecd823babbb58edb1c8e14d7106e83bb","files":["models/resnet.py"],"hardware":{"cores":"8","cpu":"Example 9000"},"hardware_id":"cpu-1","metrics":{"latency":13900000.0,"peak_memory":0.0},"model_key":"resnet","namespace":"pr/7","pull_request":7,"recorded_at":"2025-01-31T12:00:00Z","run_id":"77","run_nonce":"run-3","samples":{"latency":[13900000.0,13900001.0]},"software":{"python":"3.11.9","threads":"1","torch":"2.6.0"},"software_id":"eef877f8815f","structure":{"Conv2d":20,"layers":[{"in":3,"share":0.5}]},"units":{"latency":"ns","peak_memory":"byte"},"workload":{"batch":8,"compile":"eager","device":"cpu","dtype":"float32","mode":"infer","model":"resnet"}}',NULL,'77',NULL,NULL,8,1,7,1);
CREATE TABLE perfgate_upgrades (
	revision TEXT NOT NULL, 
	perfgate TEXT NOT NULL, 
	PRIMARY KEY (revision)
);
INSERT INTO "perfgate_upgrades" VALUES('0001','0.1.0');
CREATE TABLE perfgate_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT perfgate_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "perfgate_version" VALUES('0001');
CREATE INDEX perfgate_records_by_commit ON perfgate_records (model_key, namespace, workload_key, commit_id);
CREATE INDEX perfgate_records_by_run ON perfgate_records (run_id, attempt);
COMMIT;
