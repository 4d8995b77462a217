# shellcheck shell=bash
# Puts what crossgate needs on a Debian 12/13 or Ubuntu 24.04 machine. Sourced by ./demo
# and ./test after scripts/common.sh; never run.
#
# Owns: which packages are needed, and how Rust is found. Says in one line what it
# installs, asks nothing, installs nothing that is there, and removes no package.
# Leaves no service running that a package would have started.

# From scripts/common.sh, sourced before this file.
: "${target:?}" "${log_dir:?}"

# The oldest Rust that builds the workspace; Cargo.toml's `rust-version` says the same.
rust_minimum=1.91
rust_target=x86_64-unknown-none
rustup_script=https://sh.rustup.rs

# Servers live in sbin, which users do not always have in PATH; rustup and Go install here.
PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH:/usr/local/go/bin:/usr/local/sbin:/usr/sbin:/sbin"
export PATH

# What every build needs, and what ./test adds. Each word is `WITNESS=PACKAGE`: the package
# is installed when the witness is missing. A witness is a command, or a file (with a /,
# may be a pattern). PACKAGE may be `first|second`: the first that apt knows.
build_needs=(
    gcc=gcc ld=binutils make=make git=git /usr/include/stdlib.h=libc6-dev
    /etc/ssl/certs/ca-certificates.crt=ca-certificates
)
test_needs=(
    strace=strace musl-gcc=musl-tools go=golang-go python3=python3 node=nodejs
    'nginx=nginx-light|nginx' 'redis-server=redis-server|redis' redis-cli=redis-tools
    wrk=wrk '/usr/lib/postgresql/*/bin/postgres=postgresql' sqlite3=sqlite3
    busybox=busybox-static openssl=openssl valgrind=valgrind shellcheck=shellcheck
)
# Packages of test_needs that would start a service: unit names, to be left disabled.
declare -A service_of=(
    [nginx-light]=nginx [nginx]=nginx [redis-server]=redis-server [redis]=redis-server
    [postgresql]=postgresql
)

# Without a terminal sudo must not wait for a password.
sudo_command=(sudo -n)
if [ -t 0 ]; then sudo_command=(sudo); fi

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo; then
        "${sudo_command[@]}" "$@"
    else
        say "'$*' needs root: run as root, install sudo, or have an administrator run it"
        return 1
    fi
}

check_machine() {
    [ "$(uname -s)" = Linux ] || die "crossgate needs Linux; this is $(uname -s)"
    [ "$(uname -m)" = x86_64 ] || die "crossgate runs on x86-64 today; this machine is $(uname -m)"
    if [ -n "${SUDO_USER:-}" ] && [ "$(id -u)" -eq 0 ] && [ "$SUDO_USER" != root ]; then
        say "note: running as root through sudo; without sudo the build would belong to $SUDO_USER"
    fi
}

witnessed() {
    case $1 in
        */*) compgen -G "$1" >/dev/null ;;
        *) have "$1" ;;
    esac
}

apt_run() {
    as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
        apt-get -q -o DPkg::Lock::Timeout=300 "$@"
}

# Prints the newest version apt can install, or nothing (grep finding no line is no failure).
apt_candidate() {
    LC_ALL=C apt-cache policy "$1" 2>/dev/null |
        sed -n 's/^ *Candidate: \(.*\)$/\1/p' | grep -vx '(none)' || true
}

# Prints the first of `a|b|c` that apt can install; fails if there is none.
apt_choice() {
    local choice
    local -a choices
    IFS='|' read -ra choices <<<"$1"
    for choice in "${choices[@]}"; do
        if [ -n "$(apt_candidate "$choice")" ]; then
            printf '%s\n' "$choice"
            return
        fi
    done
    return 1
}

apt_updated=false
apt_update_once() {
    if $apt_updated; then return; fi
    apt_updated=true
    say "apt-get update: the package lists are missing or old"
    logged apt-update apt_run update
}

# While packages are installed, a policy of our own tells their scripts to start nothing.
# It is removed at the end, whatever happens; one that is there already is left alone.
policy=/usr/sbin/policy-rc.d
policy_is_ours=false
forbid_services() {
    if [ -e "$policy" ] || [ -L "$policy" ]; then return; fi
    # Set first: an interrupt between the two lines must not leave the file behind.
    policy_is_ours=true
    # shellcheck disable=SC2016
    as_root sh -c 'printf "#!/bin/sh\nexit 101\n" >"$1" && chmod 755 "$1"' sh "$policy"
}
allow_services() {
    if $policy_is_ours; then
        policy_is_ours=false
        as_root rm -f "$policy"
    fi
}
# Traps of the scripts that source this file go through here.
trap allow_services EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# apt_install PACKAGE…: installs them and nothing that is only recommended.
apt_install() {
    local package
    say "apt-get install: $*"
    forbid_services
    if ! logged apt-install apt_run install -y --no-install-recommends --no-remove "$@"; then
        # Lists older than the archive name files that are gone.
        if $apt_updated; then die "apt-get could not install: $*"; fi
        # Should this fail, the second attempt to install does, and says what is missing.
        apt_update_once || true
        logged apt-install apt_run install -y --no-install-recommends --no-remove "$@" ||
            die "apt-get could not install: $*"
    fi
    allow_services
    if [ -d /run/systemd/system ]; then
        for package in "$@"; do
            # It was not there before us: it shall not start at the next boot either.
            if [ -n "${service_of[$package]:-}" ]; then
                as_root systemctl disable --quiet "${service_of[$package]}" >/dev/null 2>&1 || true
            fi
        done
    fi
}

# setup_packages WITNESS=PACKAGE…
setup_packages() {
    local need package
    local -a missing=() chosen=() unknown=()
    for need in "$@"; do
        if ! witnessed "${need%%=*}"; then missing+=("${need#*=}"); fi
    done
    if [ "${#missing[@]}" -eq 0 ]; then return; fi
    have apt-get || die "missing: ${missing[*]}; this is no Debian or Ubuntu, install them by hand"
    # Asked once, before anything else: sudo may want a password here, on a terminal.
    as_root true ||
        die "missing: ${missing[*]}; installing them needs root: run as root or with sudo rights, or have an administrator install them"
    for need in "${missing[@]}"; do
        if ! apt_choice "$need" >/dev/null; then
            apt_update_once || die "apt-get update failed"
            break
        fi
    done
    for need in "${missing[@]}"; do
        if package=$(apt_choice "$need"); then chosen+=("$package"); else unknown+=("$need"); fi
    done
    if [ "${#unknown[@]}" -gt 0 ]; then
        say "apt knows no package for: ${unknown[*]} (on Ubuntu they are in 'universe'); what needs them will say so"
    fi
    if [ "${#chosen[@]}" -gt 0 ]; then apt_install "${chosen[@]}"; fi
}

# at_least VERSION MINIMUM
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# Is there a cargo AND a rustc that are new enough? (A rustup proxy without a toolchain
# fails here, as it should. Run outside the clone so that no override file decides.)
rust_is_new_enough() {
    local tool version
    for tool in cargo rustc; do
        have "$tool" || return 1
        version=$("$tool" --version 2>/dev/null </dev/null) || return 1
        version=${version#"$tool "}
        at_least "${version%%[ -]*}" "$rust_minimum" || return 1
    done
}

# Makes a new enough toolchain with a rustup that is there, without changing the user's
# default. The rest of the script uses it through RUSTUP_TOOLCHAIN.
rust_from_rustup() {
    say "rustup: installing the stable toolchain (the one in use is missing or older than $rust_minimum)"
    logged rustup-toolchain rustup toolchain install stable --profile minimal \
        --component rustfmt --component clippy || return 1
    export RUSTUP_TOOLCHAIN=stable
    rust_is_new_enough
}

rustup_from_web() {
    local script="$target/rustup-init.sh"
    setup_packages curl=curl
    mkdir -p "$target"
    curl --proto '=https' --tlsv1.2 -fsS --retry 2 --connect-timeout 15 --max-time 120 \
        -o "$script" "$rustup_script" || return 1
    say "rustup: installing rustup and the stable toolchain in ${CARGO_HOME:-$HOME/.cargo}"
    logged rustup-init sh "$script" -y --no-modify-path --profile minimal \
        --default-toolchain stable --component rustfmt --component clippy || return 1
    hash -r
    rust_is_new_enough
}

rustup_is_ours=false

# The distribution's own compilers: the ordinary one, the one kept current for browsers
# (Debian stable: rustc-web), the versioned ones (Ubuntu: rustc-1.NN).
rust_from_distribution() {
    local package version suffix best='' best_version=0
    local -a wanted
    have apt-get || return 1
    as_root true || return 1
    # Old lists may do: what they do not have is reported below.
    apt_update_once || true
    for package in $(apt-cache pkgnames rustc 2>/dev/null | grep -Ex 'rustc(-web|-mozilla|-[0-9]+\.[0-9]+)?'); do
        version=$(apt_candidate "$package")
        version=${version%%[+~-]*}
        if [ -z "$version" ] || ! at_least "$version" "$rust_minimum"; then continue; fi
        [ -n "$(apt_candidate "cargo${package#rustc}")" ] || continue
        if ! at_least "$best_version" "$version"; then best=$package best_version=$version; fi
    done
    [ -n "$best" ] || return 1
    suffix=${best#rustc}
    say "rustup has no toolchain for us here: using the distribution's $best ($best_version)"
    if $rustup_is_ours; then
        # Its package and the compilers' exclude each other, and it serves nobody yet.
        say "apt-get remove: rustup (installed a moment ago, without a toolchain)"
        rustup_is_ours=false
        logged apt-remove apt_run remove -y rustup || return 1
    fi
    case $suffix in
        -web | -mozilla)
            wanted=("rustc$suffix" "cargo$suffix" "rust$suffix-src" "rustfmt$suffix|rust$suffix-rustfmt" "rust$suffix-clippy")
            ;;
        *)
            wanted=("rustc$suffix" "cargo$suffix" "rust$suffix-src" "rustfmt$suffix" "rust$suffix-clippy|clippy$suffix")
            ;;
    esac
    local -a chosen=()
    for package in "${wanted[@]}"; do
        if package=$(apt_choice "$package"); then chosen+=("$package"); fi
    done
    apt_install "${chosen[@]}"
    hash -r
    rust_is_new_enough || rust_from_versioned_packages
}

# Ubuntu's versioned packages leave the plain names to others and keep theirs in
# /usr/lib/rust-1.NN/bin.
rust_from_versioned_packages() {
    local bin
    bin=$(compgen -G '/usr/lib/rust-*/bin' | sort -V | tail -n 1)
    [ -n "$bin" ] || return 1
    PATH="$bin:$PATH"
    hash -r
    rust_is_new_enough
}

# The library `core` for the bare target: the agent has no operating system under it.
target_is_there() {
    local dir
    dir=$(rustc --print target-libdir --target "$rust_target" 2>/dev/null </dev/null) || return 1
    compgen -G "$dir/libcore-*.rlib" >/dev/null
}

# A distribution's Rust has no `core` for the bare target. Build it once from the same
# compiler's own sources, into target/sysroot, and let rustc find it through a wrapper.
target_from_source() {
    local sysroot="$target/sysroot" crate="$target/sysroot/crate" libs version source flags
    source="$(rustc --print sysroot)/lib/rustlib/src/rust/library"
    [ -e "$source/core/src/lib.rs" ] || return 1
    libs="$sysroot/lib/rustlib/$rust_target/lib"
    # The agent is optimised across crates, for which the library must hold LLVM's own code.
    flags=-Cembed-bitcode=yes
    version="$(rustc --version) $flags"
    if [ "$(cat "$sysroot/version" 2>/dev/null)" != "$version" ]; then
        say "cargo: building core for $rust_target from $source"
        rm -rf "$sysroot"
        # What was built with another library does not fit to this one.
        if [ -d "$target" ]; then
            find "$target" -type d -path '*/build/crossgate-launch-*/out/agent' -prune -exec rm -rf {} +
        fi
        mkdir -p "$crate/src" "$libs"
        printf '#![no_std]\n' >"$crate/src/lib.rs"
        printf '[package]\nname = "sysroot"\nedition = "2024"\n[workspace]\n[profile.release]\npanic = "abort"\n' \
            >"$crate/Cargo.toml"
        # -Zbuild-std is unstable; RUSTC_BOOTSTRAP lets a stable compiler build its own library.
        logged sysroot env RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$crate/target" RUSTFLAGS="$flags" \
            cargo build --release --manifest-path "$crate/Cargo.toml" \
            -Zbuild-std=core,alloc,compiler_builtins -Zbuild-std-features=compiler-builtins-mem \
            --target "$rust_target" || return 1
        cp "$crate/target/$rust_target/release/deps/"lib{core,alloc,compiler_builtins}-*.rlib "$libs/" || return 1
        printf '%s\n' "$version" >"$sysroot/version"
    fi
    # Cargo runs `WRAPPER rustc ARGUMENTS`; only compilations for the bare target get our
    # sysroot, and the system's lld: the one rustup brings (rust-lld) is not packaged.
    setup_packages ld.lld=lld
    cat >"$sysroot/rustc-wrapper" <<WRAPPER
#!/bin/sh
case " \$* " in
*" --target $rust_target "*linker=*) exec "\$@" --sysroot "\${0%/*}" ;;
*" --target $rust_target "*) exec "\$@" --sysroot "\${0%/*}" -Clinker=ld.lld ;;
esac
exec "\$@"
WRAPPER
    chmod 755 "$sysroot/rustc-wrapper"
    export RUSTC_WRAPPER="$sysroot/rustc-wrapper"
}

setup_rust() {
    if ! rust_is_new_enough && ! rust_from_versioned_packages; then
        if ! have rustup && [ -n "$(apt_candidate rustup)" ]; then
            setup_packages rustup=rustup
            rustup_is_ours=true
        fi
        if have rustup && rust_from_rustup; then
            :
        elif rustup_from_web; then
            :
        elif rust_from_distribution; then
            :
        else
            die "no Rust $rust_minimum or newer: $rustup_script could not be reached (or rustup failed, see above) and apt has no rustc that new. Install one and run this again."
        fi
    fi
    if ! target_is_there; then
        if have rustup && rustup which rustc >/dev/null 2>&1; then
            say "rustup: adding the target $rust_target"
            logged rustup-target rustup target add "$rust_target" ||
                die "rustup could not add the target $rust_target"
        else
            target_from_source ||
                die "$(rustc --version) has no library for $rust_target and its sources (rust-src) did not build: use rustup, which has it"
        fi
    fi
}

# Formatter and linter, for ./test only. Missing ones are reported by their stage.
setup_rust_components() {
    local component
    for component in rustfmt clippy; do
        if ! cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 </dev/null && have rustup; then
            say "rustup: adding $component"
            # The stage that needs it fails with its own message.
            logged "rustup-$component" rustup component add "$component" || true
        fi
    done
}

setup_build() {
    check_machine
    setup_packages "${build_needs[@]}"
    setup_rust
}

setup_test() {
    # One call, so that apt-get runs once.
    check_machine
    setup_packages "${build_needs[@]}" "${test_needs[@]}"
    setup_rust
    setup_rust_components
}
