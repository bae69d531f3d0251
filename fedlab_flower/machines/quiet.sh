# Nothing is told, looked up or installed while a federation runs.
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1 RAY_USAGE_STATS_ENABLED=0 NO_COLOR=1
export PATH="$${PROGRAMS:-$programs}:$$PATH"
