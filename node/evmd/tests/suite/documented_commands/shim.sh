#!/usr/bin/env bash
# Replaces the commands of the documents. The test starts the nodes itself, on free ports, and returns the program
# and the arguments to run instead, one per line. No argument in the documents contains a line break.
set -euo pipefail
exec 3<>"/dev/tcp/127.0.0.1/$DOCUMENTED_COMMANDS_PORT"
printf '%s\n' $# "$PWD" "${ETH_RPC_URL-}" "${0##*/}" "$@" >&3
mapfile -t command <&3
exec 3<&-
exec "${command[@]}"
