"""A stand-in for GitHub's REST API, held to GitHub's own OpenAPI description in both directions."""
