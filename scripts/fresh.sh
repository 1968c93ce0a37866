#!/usr/bin/env bash
# fresh.sh RELEASE...: both commands of the README as on a new machine: a bare root of each release,
# made by debootstrap, with nothing but make added. Then nvcc as a machine with a driver alone gets it:
# `make setup CUDA=1` fetches NVIDIA's wheels, which compile for GPUs of 7.5, 8.9 and 9.0a; without
# them and without a network `make run CUDA=1` says so and trains on the CPU. Prints a line each:
#
#   release   compiler     run     test                                 nvcc     seconds
#   trixie    gcc 14.2.0   works   356 passed, 0 failed, 26 skipped     works         97
#
# Nothing is as it is at home: the folder's name has spaces and worse in it, files are for their
# owner alone, nothing in /tmp may be run, the locale is one that is not installed. root runs
# `make run`, which installs, and a user who may not install runs `make test`.
#
# Releases come from where this machine's apt gets its packages. Roots and packages are kept in
# build/fresh, what was printed in build/fresh/RELEASE.log. Exit code 1 if a command failed. What
# cannot be tried is not a failure: a line "skipped: fresh: REASON" says why. TEST_QUICK=1: instead of
# `make test`, only the tests that run whole programs.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
umask 022

skip() { echo "skipped: fresh: $*"; }

[ "$(id -u)" = 0 ] || { skip 'only root can make a root folder'; exit; }
command -v apt-get debootstrap >/dev/null || { skip 'it needs debootstrap, a package'; exit; }
# Mounts are made in a namespace, and end with the last process in it.
unshare --mount --pid --fork true 2>/dev/null || { skip 'this machine does not let us mount'; exit; }

cache=$PWD/build/fresh
work=$cache/run.$$
folder='/srv/a folder; its name'
mkdir -p "$cache/debs"
child='' network=''
# shellcheck disable=SC2317 # the trap calls it
finish() {
  [ -z "$child" ] || kill -KILL "$child" 2>/dev/null
  wait
  rm -rf --one-file-system "$work" "$cache"/*.partial
}
trap finish EXIT
trap 'exit 1' INT TERM HUP

# apart COMMAND...: in namespaces of its own, killed with this script. Its exit status.
apart() {
  # shellcheck disable=SC2086 # one option or none
  unshare $network --mount --pid --fork --kill-child "$@" </dev/null &
  child=$!
  wait "$child"
  local status=$?
  child=
  return $status
}

# find_mirror RELEASE: sets $mirror to the first of apt's archives that has it, or $reason.
find_mirror() {
  for mirror in $(apt-get --print-uris update | sed -n "s|^'\(.*/\)dists/.*|\1|p" | sort -u); do
    if /usr/lib/apt/apt-helper download-file "${mirror}dists/$1/Release" "$cache/Release.partial" \
      >/dev/null 2>&1; then
      return
    fi
  done
  reason='apt reaches no archive that has it'
  return 1
}

# make_root RELEASE: makes $cache/RELEASE if it is not there, or sets $reason.
make_root() {
  local root=$cache/$1 mirror script=sid components=main proxy=
  [ ! -d "$root" ] || return 0
  find_mirror "$1" || return
  case $mirror in *ubuntu*) script=gutsy components=main,universe ;; esac
  [ ! -e "/usr/share/debootstrap/scripts/$1" ] || script=$1
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  rm -rf --one-file-system "$root.partial"
  http_proxy=${proxy:-${http_proxy-}} apart debootstrap --variant=minbase --include=make \
    --components="$components" --cache-dir="$cache/debs" "$1" "$root.partial" "$mirror" "$script" \
    >"$cache/$1.log" 2>&1 || { reason=$(tail -n 1 "$cache/$1.log"); return 1; }
  apt-config dump | grep -iE '^Acquire::(Check|https?|Retries)' \
    >"$root.partial/etc/apt/apt.conf.d/90-as-outside"
  chroot "$root.partial" useradd --create-home newcomer && mv "$root.partial" "$root"
}

# inside USER COMMAND...: in the root, in the checkout, as USER.
inside() {
  # shellcheck disable=SC2016 # it is the inner shell that expands
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

# try_wheels: pip trusts whom it trusts outside. Sets $wheels where it reaches nobody.
try_wheels() {
  local certificate
  certificate=$(python3 -m pip config list 2>/dev/null | sed -n "s/^global.cert='\(.*\)'$/\1/p")
  if [ -n "$certificate" ]; then
    cp -L "$certificate" "$work/etc/outside.crt"
    printf '[global]\ncert = /etc/outside.crt\n' >"$work/etc/pip.conf"
  fi
  inside root make setup CUDA=1 && chroot "$work" chown -R newcomer: "$folder" || return
  ! tail -n 1 "$log" | grep -q 'pip cannot fetch it: No matching' || { wheels=offline && return; }
  inside newcomer make build/kernels/unfused.o SETUP=0 CUDA=1 \
    ARCH="$(printf -- '-gencode arch=compute_%s,code=sm_%s ' 75 75 89 89 90a 90a)" || return
  rm -rf "$work$folder/.cuda"
  network=--net inside newcomer make run CUDA=1 EPOCHS=1 >"$cache/offline.partial" 2>&1
  cat "$cache/offline.partial"
  grep -q '^setup: .* so the build is CPU-only: pip cannot fetch it' "$cache/offline.partial" &&
    grep -q '^epoch 1/1 ' "$cache/offline.partial"
}

# try RELEASE: a line of the table. Its exit status: 0 if all of it passed.
try() {
  local log=$cache/$1.log run=works test compiler start=$SECONDS failed=0 wheels=works
  rm -rf --one-file-system "$work"
  cp -a "$cache/$1" "$work" && cp -L /etc/resolv.conf /etc/hosts "$work/etc" || return
  mkdir -p "$work$folder"
  tar -c --exclude=./build --exclude=./.git --exclude='./data/*.csv' --exclude='./mlp-*' . |
    tar -x -C "$work$folder" || return
  inside root make run >"$log" 2>&1 || run=FAILS failed=1
  chroot "$work" chown -R newcomer: "$folder"
  inside newcomer "${test_command[@]}" >>"$log" 2>&1 || failed=1
  try_wheels >>"$log" 2>&1 || wheels=FAILS failed=1
  test=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
  compiler=$(chroot "$work" gcc -dumpfullversion 2>/dev/null)
  printf '%-10s gcc %-10s %-7s %-36s %-7s %6d\n' "$1" "${compiler:-none}" $run "${test:-FAILS}" $wheels \
    $((SECONDS - start))
  [ $failed = 0 ] || tail -n 30 "$log" | sed 's/^/  | /'
  return $failed
}

test_command=(make test)
if [ -n "${TEST_QUICK-}" ]; then
  quick=(build/test_{output,option_table,digits} tests/scenarios/{program,resume,signals,manual,install,digits}.sh)
  test_command=(sh -c 'make -j2 all "$@" && scripts/run_tests.sh "$@"' sh "${quick[@]}")
fi
failed=0 reason=
printf '%-10s %-14s %-7s %-36s %-7s %s\n' release compiler run test nvcc seconds
for release in "$@"; do
  if make_root "$release"; then try "$release" || failed=1; else skip "$release: $reason"; fi
done
exit $failed
