/* A stand-in for libnvidia-ml.so.1 that the real pynvml binding loads. The scenario is a text file named by
 * FAKE_NVML, one fact a line:
 *
 *   gpu UUID        a card (in NVML's order); the lines after it up to the next "gpu" belong to it
 *   clock MHZ  throttle BITS  energy MILLIJOULE  used BYTES  pid N  mig UUID  default MHZ
 *   fail FUNCTION CODE     that call returns CODE (3 = not supported, 4 = no permission, 999 = unknown)
 *
 * Facts that are absent are "not supported". A locked clock is appended to the file as "locked N".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUCCESS 0
#define INVALID 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define TOO_SMALL 7
#define MAX 8

struct card {
    char uuid[96];
    char mig[96];
    long long clock, throttle, energy, used, standard;
    unsigned pids[MAX];
    int pid_count, is_slice;
};

struct process { unsigned pid; unsigned long long used; unsigned instance, compute; };
struct memory { unsigned long long total, free, used; };

static struct card cards[MAX], slices[MAX];
static int count;

static void set(struct card *card, const char *word, const char *value) {
    long long number = atoll(value);
    if (!strcmp(word, "clock")) card->clock = number;
    else if (!strcmp(word, "throttle")) card->throttle = number;
    else if (!strcmp(word, "energy")) card->energy = number;
    else if (!strcmp(word, "used")) card->used = number;
    else if (!strcmp(word, "default")) card->standard = number;
    else if (!strcmp(word, "pid")) card->pids[card->pid_count++] = (unsigned)number;
    else if (!strcmp(word, "mig")) strcpy(card->mig, value);
}

/* Read the scenario; the code with which FUNCTION is to fail. */
static int scenario(const char *function) {
    char word[64], value[96];
    int code, failure = SUCCESS;
    FILE *file = fopen(getenv("FAKE_NVML"), "r");
    count = 0;
    while (file && fscanf(file, "%63s %95s", word, value) == 2) {
        if (!strcmp(word, "gpu")) {
            struct card *card = &cards[count++];
            memset(card, 0, sizeof *card);
            card->clock = card->throttle = card->energy = card->used = card->standard = -1;
            strcpy(card->uuid, value);
        } else if (!strcmp(word, "fail")) {
            if (fscanf(file, "%d", &code) == 1 && !strcmp(value, function)) failure = code;
        } else if (count) {
            set(&cards[count - 1], word, value);
        }
    }
    if (file) fclose(file);
    return failure;
}

#define BEGIN int failure = scenario(__func__); if (failure) return failure
#define GIVE(field, target) if (card->field < 0) return NOT_SUPPORTED; *(target) = card->field; return SUCCESS

int nvmlInitWithFlags(unsigned flags) { (void)flags; BEGIN; return SUCCESS; }
int nvmlShutdown(void) { BEGIN; return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "as the scenario says"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { BEGIN; snprintf(text, size, "999.1"); return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *number) { BEGIN; *number = count; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct card **card) {
    BEGIN;
    if ((int)index >= count) return INVALID;
    *card = &cards[index];
    return SUCCESS;
}
int nvmlDeviceGetUUID(struct card *card, char *text, unsigned size) {
    BEGIN;
    snprintf(text, size, "%s", card->uuid);
    return SUCCESS;
}
int nvmlDeviceGetName(struct card *card, char *text, unsigned size) {
    BEGIN;
    snprintf(text, size, "Fake %ld", (long)(card - cards));
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo(struct card *card, struct memory *memory) {
    BEGIN;
    if (card->used < 0) return NOT_SUPPORTED;
    memory->total = 1ULL << 34;
    memory->used = card->used;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}
int nvmlDeviceGetClockInfo(struct card *card, int kind, unsigned *clock) { BEGIN; (void)kind; GIVE(clock, clock); }
int nvmlDeviceGetDefaultApplicationsClock(struct card *card, int kind, unsigned *clock) {
    BEGIN;
    (void)kind;
    GIVE(standard, clock);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(struct card *card, unsigned long long *bits) { BEGIN; GIVE(throttle, bits); }
int nvmlDeviceGetCurrentClocksEventReasons(struct card *card, unsigned long long *bits) { BEGIN; GIVE(throttle, bits); }
int nvmlDeviceGetTotalEnergyConsumption(struct card *card, unsigned long long *energy) { BEGIN; GIVE(energy, energy); }

int nvmlDeviceGetComputeRunningProcesses_v3(struct card *card, unsigned *number, struct process *found) {
    BEGIN;
    int room = *number;
    *number = card->pid_count;
    if (!card->pid_count) return SUCCESS;
    if (!found || room < card->pid_count) return TOO_SMALL;
    for (int i = 0; i < card->pid_count; i++) found[i] = (struct process){card->pids[i], 1, 0, 0};
    return SUCCESS;
}
static int remember(const char *word, unsigned value) {
    FILE *file = fopen(getenv("FAKE_NVML"), "a");
    fprintf(file, "%s %u\n", word, value);
    fclose(file);
    return SUCCESS;
}
int nvmlDeviceSetGpuLockedClocks(struct card *card, unsigned low, unsigned high) {
    BEGIN;
    (void)card;
    return low == high ? remember("locked", low) : INVALID;
}
int nvmlDeviceResetGpuLockedClocks(struct card *card) { BEGIN; (void)card; return remember("locked", 0); }

int nvmlDeviceGetMigMode(struct card *card, unsigned *current, unsigned *pending) {
    BEGIN;
    if (card->is_slice) return NOT_SUPPORTED;
    *current = *pending = card->mig[0] != 0;
    return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(struct card *card, unsigned *number) { BEGIN; (void)card; *number = 2; return SUCCESS; }
int nvmlDeviceGetMigDeviceHandleByIndex(struct card *card, unsigned index, struct card **slice) {
    BEGIN;
    if (index) return NOT_FOUND;
    struct card *made = &slices[card - cards];
    memset(made, 0, sizeof *made);
    made->clock = made->throttle = made->energy = made->standard = -1;
    made->used = 5;
    made->is_slice = 1;
    strcpy(made->uuid, card->mig);
    *slice = made;
    return SUCCESS;
}
