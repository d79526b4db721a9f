#!/bin/sh
# Publishes the LLDP neighbours of this node: one annotation on its own Node, as an entry of topoloom.fabric/v1.
#
# Needs lldpcli, curl and a POSIX shell with its usual tools. `collect.sh once` looks once and ends with 0 if the annotation
# is up to date; without an argument it runs until it is stopped. It copies what the switches send as it is: the reader of
# the annotation decides what is valid.
set -u
export LC_ALL=C

node=${NODE_NAME:?NODE_NAME is missing: take it from spec.nodeName}
annotation=${ANNOTATION:-topoloom.dev/fabric-links}
socket=${LLDPD_SOCKET:-/run/lldpd/lldpd.socket}
interval=${INTERVAL:-60}          # seconds between two looks; it publishes a change within this time
refresh=${REFRESH:-21600}         # seconds after which it writes again without a change, up to a quarter earlier
state=${STATE_DIR:-/run/collector}
net=${NET_DIR:-/sys/class/net}
account=${ACCOUNT_DIR:-/var/run/secrets/kubernetes.io/serviceaccount}
limit=16384                       # bytes; the reader refuses more

say() { printf '%s %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$*" >&2; }

# A random number from 0 to $1 - 1, different on every node.
random() {
  number=$(od -An -N2 -tu2 /dev/urandom | tr -dc '0-9')
  echo $((${number:-0} % ($1 > 0 ? $1 : 1)))
}

# Ethernet ports of the machine that are up, as a JSON list: those without a neighbour belong in a report.
up_interfaces() {
  list=
  for path in "$net"/*; do
    name=${path##*/}
    case $name in *[!A-Za-z0-9._@:-]*) continue ;; esac
    [ -e "$path/device" ] || continue
    [ "$(cat "$path/operstate" 2>/dev/null)" = up ] || continue
    [ "$(cat "$path/type" 2>/dev/null)" = 1 ] || continue
    list="$list${list:+,}\"$name\""
  done
  echo "[$list]"
}

# The neighbours on one line. The age of a neighbour changes with every look, so it is removed. In the output of lldpcli a
# line break is never part of a text, so the blanks at the start of a line are indentation.
neighbours() {
  lldpcli -u "$socket" -f json0 show neighbors "$@" |
    sed -e 's/^[[:space:]]*//' -e 's/"age": *"[^"]*"/"age":""/g' | tr -d '\n'
}

# The entry without its time. First with capabilities; without them if that is too long.
entry() {
  for detail in "" summary; do
    # shellcheck disable=SC2086 # nothing is no argument
    found=$(neighbours $detail)
    case $found in
      '{"lldp":'*'}') ;;
      *) say "lldpcli gave no neighbours: is lldpd up?"; return 1 ;;
    esac
    text="\"node\":\"$node\",\"collector\":\"topoloom roce-collector\",\"upInterfaces\":$(up_interfaces),\"lldpcli\":$found}"
    # Schema and time need up to 100 bytes more.
    if [ $((${#text} + 100)) -le "$limit" ]; then
      printf '%s' "$text"
      return 0
    fi
  done
  say "the data of the neighbours has ${#text} bytes, and at most $limit are allowed: name fewer ports in lldpd"
  return 1
}

# Writes the annotation; $1 is the entry without its time.
publish() {
  value="{\"schema\":\"topoloom.fabric/v1\",\"observedAt\":\"$(date -u +%Y-%m-%dT%H:%M:%SZ)\",$1"
  escaped=$(printf '%s' "$value" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g')
  printf '{"metadata":{"annotations":{"%s":"%s"}}}' "$annotation" "$escaped" >"$state/patch" || return 1
  host=${KUBERNETES_SERVICE_HOST:-kubernetes.default.svc}
  case $host in *:*) host="[$host]" ;; esac
  token=$(cat "$account/token") || return 1
  # The token goes through standard input: arguments are visible to every process of the machine.
  status=$(printf 'header = "Authorization: Bearer %s"\n' "$token" |
    curl --config - --silent --show-error --max-time 20 --request PATCH --cacert "$account/ca.crt" \
      --header 'Content-Type: application/merge-patch+json' --data-binary "@$state/patch" \
      --output "$state/answer" --write-out '%{http_code}' \
      "https://$host:${KUBERNETES_SERVICE_PORT:-443}/api/v1/nodes/$node?fieldManager=topoloom-roce-collector")
  if [ "$status" != 200 ]; then
    say "the annotation was not written: status ${status:-none}: $(head -c 600 "$state/answer" 2>/dev/null | tr '\n' ' ')"
    return 1
  fi
}

# Looks once, and writes if something changed or the last write is long ago.
look() {
  new=$(entry) || return 1
  now=$(date +%s)
  due=$(cat "$state/due" 2>/dev/null || echo 0)
  if [ "$now" -lt "${due:-0}" ] && [ "$new" = "$(cat "$state/written" 2>/dev/null)" ]; then
    return 0
  fi
  publish "$new" || return 1
  printf '%s' "$new" >"$state/written" && echo $((now + refresh - $(random $((refresh / 4))))) >"$state/due"
  say "written"
}

mkdir -p "$state"
if [ "${1:-}" = once ]; then
  look
  exit
fi
trap 'exit 0' TERM INT
# Thousands of nodes start this at the same moment: spread their first looks over one interval.
sleep "$(random "$interval")" & wait $!
while :; do
  look
  sleep $((interval + $(random $((interval / 4))))) & wait $!
done
