#!/bin/sh
# A client: nginx, which shows its certificate to the server, and a SuperNode. Ctrl-C ends both.
# NODE_CONFIG holds what your own `load` reads from context.node_config: 'data="/srv/images"'.
set -eu
cd "$$(dirname "$$0")"
umask 077
. ./quiet.sh
set --
if [ -e trusted.yaml ]; then
    # Flower takes an empty file for leave to run everything.
    grep -q '^fpk_' trusted.yaml || { echo "trusted.yaml names nobody" >&2; exit 1; }
    set -- --trusted-entities trusted.yaml
fi
trap 'trap "" TERM; kill 0' EXIT INT TERM
# Where nginx dies all ends, so that the unit starts all of it again.
{ nginx -p "$$PWD" -e stderr -c nginx.conf -g 'daemon off;' || :; kill $$$$; } &
flower-supernode --superlink 127.0.0.1:$inner --root-certificates tls/ca.pem \
    --auth-supernode-private-key node --port $runtime "$$@" \
    --node-config "partition-id=$client server-key=\"$$PWD/tasks.pub\" $${NODE_CONFIG:-}" &
wait $$!
