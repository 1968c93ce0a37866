#!/usr/bin/env bash
# fresh.sh RELEASE... runs the README's commands as on a new machine. For each release of Debian or Ubuntu,
# debootstrap makes a minimal system, to which only make is added. There,
#
#   1. root runs `make run`, which installs what it needs;
#   2. a user who cannot install runs `make test`, so without the compilers that only tests need;
#   3. root runs `make test`, which installs what the tests need.
#
# Prints one line per release, with the seconds of all three:
#
#   release   run     test, nothing installed              test                                 seconds
#   trixie    works   402 passed, 0 failed, 40 skipped     437 passed, 0 failed, 10 skipped         316
#
# The environment is unusual on purpose: the folder's name has spaces and special characters, files can
# be read only by their owner, /tmp is mounted noexec, and the locale is not installed.
#
# Releases come from the archives of this machine's apt, or from those of Debian and Ubuntu. Roots, packages and
# output (RELEASE.log) are kept in build/fresh. The exit code is 1 if a command failed. A release that cannot be
# tried does not count as a failure; for it, "skipped: fresh: REASON" is printed. TEST_QUICK=1 trains fewer epochs,
# runs fewer cases of the longest tests, and in 2. only the scenarios that look for compilers.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
umask 022

skip() { echo "skipped: fresh: $*"; }

[ "$(id -u)" = 0 ] || { skip 'only root can make a root folder'; exit; }
command -v debootstrap >/dev/null || { skip 'it needs debootstrap, a package'; exit; }
# Checks that mounts can be made in a namespace. Such mounts end with the last process of the namespace.
unshare --mount --pid --fork true 2>/dev/null || { skip 'this machine does not let us mount'; exit; }

cache=$PWD/build/fresh
work=$cache/run.$$ folder='/srv/a folder; its name'
mkdir -p "$cache/debs"
# shellcheck disable=SC2317 # the trap below calls it
finish() {
  jobs -pr | xargs -r kill -KILL
  wait
  rm -rf --one-file-system "$work" "$cache"/*.partial
}
trap finish EXIT
trap 'exit 1' INT TERM HUP

# apart COMMAND... runs a command in its own namespaces and returns its exit status. The command is killed
# when this script ends.
apart() {
  unshare --mount --pid --fork --kill-child "$@" </dev/null &
  wait $!
}

# ubuntu_keyring MIRROR prints which file has the keys that sign Ubuntu, and fetches it if it is not installed: Debian 12
# has no package of it. Nothing signs a .deb that is fetched alone, so its SHA-256 says that it is the right one. The keys
# in it are, byte for byte, those of Debian 13's package ubuntu-keyring, which Debian signs.
ubuntu_keyring() {
  local keys=usr/share/keyrings/ubuntu-archive-keyring.gpg deb=ubuntu-keyring_2023.11.28.1_all.deb
  local sum=36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8
  [ ! -e /$keys ] || { echo /$keys; return; }
  [ -e "$cache/${keys##*/}" ] || {
    /usr/lib/apt/apt-helper download-file "$1pool/main/u/ubuntu-keyring/$deb" "$cache/$deb.partial" "SHA256:$sum" >&2 &&
      dpkg-deb --fsys-tarfile "$cache/$deb.partial" | tar -xO ./$keys >"$cache/keys.partial" &&
      mv "$cache/keys.partial" "$cache/${keys##*/}"
  } || return
  echo "$cache/${keys##*/}"
}

# make_root RELEASE makes $cache/RELEASE if it is missing. It uses the first of apt's archives that has the release.
make_root() {
  local root=$cache/$1 mirror script=sid proxy='' keyring=()
  [ ! -d "$root" ] || return 0
  for mirror in $(apt-get --print-uris update | sed -n "s|^'\(.*/\)dists/.*|\1|p" | sort -u) \
    http://deb.debian.org/debian/ http://archive.ubuntu.com/ubuntu/; do
    /usr/lib/apt/apt-helper download-file "${mirror}dists/$1/Release" "$cache/Release.partial" && break
    mirror=
  done >"$cache/$1.log" 2>&1
  [ -n "$mirror" ] || return
  [[ $mirror != *ubuntu* ]] || {
    script=gutsy
    keyring=(--keyring "$(ubuntu_keyring "$mirror" 2>>"$cache/$1.log")") || return
  }
  [ ! -e "/usr/share/debootstrap/scripts/$1" ] || script=$1
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  http_proxy=${proxy:-${http_proxy-}} apart debootstrap --force-check-gpg "${keyring[@]}" --variant=minbase \
    --include=make --components=main,universe --cache-dir="$cache/debs" "$1" "$root.partial" "$mirror" "$script" \
    >"$cache/$1.log" 2>&1 || return
  apt-config dump | grep -iE '^Acquire::(Check|https?|Retries)' >"$root.partial/etc/apt/apt.conf.d/90-as-outside"
  chroot "$root.partial" useradd --create-home newcomer && mv "$root.partial" "$root"
}

# inside USER COMMAND... runs a command as USER. It runs in the checkout that is in the minimal system in $work.
inside() {
  # shellcheck disable=SC2016 # the inner shell expands
  apart sh -c '
    root=$1 debs=$2 folder=$3 user=$4
    shift 4
    mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" &&
      mount -t tmpfs -o noexec,mode=1777 tmpfs "$root/tmp" &&
      mount --bind "$debs" "$root/var/cache/apt/archives" || exit
    exec chroot --userspec="$user" "$root" env -i HOME=/home/newcomer LC_ALL=de_DE.UTF-8 \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      sh -c '\''cd "$1" && shift && umask 077 && "$@"'\'' sh "$folder" "$@"
  ' sh "$work" "$cache/debs" "$folder" "$@"
}

# sum LOG prints the last line of `make test`.
sum() { grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$1" | tail -n 1 | grep . || echo FAILS; }

# try RELEASE prints a line of the table. Returns 0 if all three commands passed.
try() {
  local log=$cache/$1.log run=works start=$SECONDS failed=0
  rm -rf --one-file-system "$work"
  cp -a "$cache/$1" "$work" && cp -L /etc/resolv.conf /etc/hosts "$work/etc" && mkdir -p "$work$folder" &&
    tar -c --exclude=./build --exclude=./.git --exclude='./data/*.csv' --exclude='./mlp-*' . |
    tar -x -C "$work$folder" || return
  inside root "${run_command[@]}" >"$log.1" 2>&1 || run=FAILS failed=1
  chroot "$work" chown -R newcomer: "$folder"
  inside newcomer "${test_command[@]}" "${few[@]}" >"$log.2" 2>&1 || failed=1
  inside root "${test_command[@]}" >"$log.3" 2>&1 || failed=1
  printf '%-9s %-7s %-36s %-36s %7d\n' "$1" $run "$(sum "$log.2")" "$(sum "$log.3")" $((SECONDS - start))
  cat "$log".[123] >"$log"
  rm "$log".[123]
  [ $failed = 0 ] || { grep -B 40 -A 5 '^  exit status' "$log" || tail -n 60 "$log"; } | tail -n 200 | sed 's/^/  | /'
  return $failed
}

run_command=(make run) test_command=(make test) few=()
if [ -n "${TEST_QUICK-}" ]; then
  run_command+=(EPOCHS=1)
  test_command=(env TEST_QUICK=1 make test)
  few=(TESTS='' SCENARIOS="$(echo tests/scenarios/{scripts,install,exercise,mistakes,notebook,lab,bench}.sh)")
fi
failed=0
printf '%-9s %-7s %-36s %-36s %s\n' release run 'test, nothing installed' test seconds
for release in "$@"; do
  if make_root "$release"; then try "$release" || failed=1; else skip "$release: $(tail -n 1 "$cache/$release.log")"; fi
done
exit $failed
