# Stops the test servers below the run directory $1 and deletes their data once no test process has
# lived for five seconds. Standard input is the file whose lock says that a watchdog is here; see run.rs.

run=${1:?run directory}

# try_lock <descriptor>: exclusive, without waiting. macOS has no flock(1) but has perl.
if command -v flock >/dev/null; then
    try_lock() { flock -xn "$1"; }
    unlock() { flock -u "$1"; }
else
    try_lock() { perl -e 'open(F, "+<&=", $ARGV[0]) or exit 1; exit(flock(F, 6) ? 0 : 1)' "$1"; }
    unlock() { perl -e 'open(F, "+<&=", $ARGV[0]) or exit 1; flock(F, 8)' "$1"; }
fi

nobody_is_here() { try_lock 9 && unlock 9; }

# stop <data directory>: fast, and after twenty seconds by force. The pid is trusted only if that
# process really runs on this directory.
stop() {
    pid_file=$1/pgdata/postmaster.pid
    read -r pid <"$pid_file" || return 0
    case $(tr '\0' ' ' <"/proc/$pid/cmdline" || ps -ww -o command= -p "$pid") in
    *"$1/pgdata"*) ;;
    *) return 0 ;;
    esac
    kill -INT "$pid"
    tries=0
    while [ -e "$pid_file" ] && [ $tries -lt 200 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    [ ! -e "$pid_file" ] || kill -KILL "$pid"
}

try_lock 0 || exit 0
exec 8<>"$run/gate" 9<>"$run/users"
idle=0
while :; do
    sleep 1
    if ! nobody_is_here; then
        idle=0
        continue
    fi
    idle=$((idle + 1))
    if [ $idle -lt 5 ] || ! try_lock 8; then continue; fi
    # Nobody can join now; somebody may have joined before the gate was ours.
    if nobody_is_here; then
        for data_dir in "$run"/clusters/*; do stop "$data_dir"; done
        rm -rf "$run/clusters"
        # The next process must find the watchdog's place free as soon as it passes the gate.
        exec 0<&-
        exit 0
    fi
    unlock 8
    idle=0
done
