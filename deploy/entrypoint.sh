#!/bin/sh
# Starts the annotator's server of one project, or of a folder of projects, with what the environment says. Further
# arguments go to warpgauge annotate or serve. Links are not printed: what a container prints is kept by others.
#
#   WARPGAUGE_PROJECT        folder of the project or of many (/project)
#   WARPGAUGE_HOST           name under which browsers reach the proxy, such as annotate.example.org (needed)
#   WARPGAUGE_ORGANISER      who organises, by the name that the sign-on gives
#   WARPGAUGE_USER_HEADER    header in which the proxy names the person whom it signed on; empty for links with tokens
#   WARPGAUGE_TRUSTED_PROXY  address or network of the proxy (needed with the header)
#   WARPGAUGE_TOKEN_FILE     file with the secret of the organiser's link
#   WARPGAUGE_WORKERS        number of processes (1)
#   WARPGAUGE_DATABASE_FILE  file with the address of the database, password included
#   WARPGAUGE_TRUST          1 where the project may name images outside its folder
#   WARPGAUGE_LOOPS          folder of compiled loops to begin with, copied to NUMBA_CACHE_DIR
#   WARPGAUGE_BIND           address to bind to (0.0.0.0)
#   WARPGAUGE_PORT, WARPGAUGE_METRICS_PORT   ports (8000, 9100)
set -eu

if [ -z "${WARPGAUGE_HOST:-}" ]; then
  echo "warpgauge: set WARPGAUGE_HOST to the name under which browsers reach the proxy" >&2
  exit 1
fi
if [ -n "${WARPGAUGE_DATABASE_FILE:-}" ]; then
  WARPGAUGE_DATABASE=$(cat "$WARPGAUGE_DATABASE_FILE")
  export WARPGAUGE_DATABASE
fi

set -- --no-browser --no-links --log-format json --host "${WARPGAUGE_BIND:-0.0.0.0}" --port "${WARPGAUGE_PORT:-8000}" \
  --metrics-port "${WARPGAUGE_METRICS_PORT:-9100}" --workers "${WARPGAUGE_WORKERS:-1}" \
  --allowed-host "$WARPGAUGE_HOST" "$@"
if [ -n "${WARPGAUGE_ORGANISER:-}" ]; then set -- --rater "$WARPGAUGE_ORGANISER" "$@"; fi
if [ -n "${WARPGAUGE_TOKEN_FILE:-}" ]; then set -- --token-file "$WARPGAUGE_TOKEN_FILE" "$@"; fi
if [ -n "${WARPGAUGE_TRUSTED_PROXY:-}" ]; then set -- --trusted-proxy "$WARPGAUGE_TRUSTED_PROXY" "$@"; fi
if [ -n "${WARPGAUGE_USER_HEADER:-}" ]; then set -- --user-header "$WARPGAUGE_USER_HEADER" "$@"; fi
# Loops that were compiled with the image are there at once; on another kind of processor they are compiled now, so that
# the first raters do not wait for it.
if [ -n "${WARPGAUGE_LOOPS:-}" ] && [ -n "${NUMBA_CACHE_DIR:-}" ] && [ ! -e "$NUMBA_CACHE_DIR" ]; then
  cp -R -p "$WARPGAUGE_LOOPS" "$NUMBA_CACHE_DIR"
fi
warpgauge prepare >/dev/null
folder=${WARPGAUGE_PROJECT:-/project}
command=annotate
if [ -d "$folder" ] && [ ! -e "$folder/project.json" ]; then command=serve; fi
exec warpgauge "$command" "$folder" "$@"
