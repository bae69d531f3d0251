#!/bin/sh
# The server: a SuperLink that only this machine reaches, and nginx before it. Ctrl-C ends both.
set -eu
cd "$$(dirname "$$0")"
umask 077
. ./quiet.sh
export FLWR_HOME="$$PWD/home"
trap 'trap "" TERM; kill 0' EXIT INT TERM
# Where nginx dies all ends, so that the unit starts all of it again.
{ nginx -p "$$PWD" -e stderr -c nginx.conf -g 'daemon off;' || :; kill $$$$; } &
# Certificates are renewed 30 days before they end; nginx reads them anew, nobody is cut off.
(while sleep 86400; do python -m fedlab_flower renew .; done) &
flower-superlink --host 127.0.0.1 --port $inner --enable-supernode-auth \
    --ssl-ca-certfile back/ca.pem --ssl-certfile back/server.pem --ssl-keyfile back/server.key \
    --database superlink.db --disable-runtime-dependency-installation &
wait $$!
