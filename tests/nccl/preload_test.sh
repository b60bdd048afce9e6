#!/bin/bash
# How Tutti gets in place of NCCL in a program that was linked with NCCL, on a model of a PyTorch wheel: the library that
# calls NCCL has a run path (DT_RUNPATH, or the older DT_RPATH) to a folder with a libnccl.so.2 of its own.
#   preload_test.sh LIBNCCL CC HEADERS
set -u
library=$(realpath "$1") cc=$2 headers=$3
unset LD_LIBRARY_PATH LD_PRELOAD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/site/torch/lib" "$work/site/nvidia/nccl/lib"
failed=0

# NCCL as the wheel brings it: another version, which tells them apart.
echo 'int ncclGetVersion(int* v) { *v = 12345; return 0; }' >"$work/theirs.c"
$cc -shared -fPIC -Wl,-soname,libnccl.so.2 "$work/theirs.c" -o "$work/site/nvidia/nccl/lib/libnccl.so.2" || exit 1
cat >"$work/torch.c" <<'C'
int ncclGetVersion(int*);
int torchVersionOfNccl(void) { int v = 0; return ncclGetVersion(&v) == 0 ? v : -1; }
C
cat >"$work/main.c" <<'C'
#include <stdio.h>
int torchVersionOfNccl(void);
int main(void) { return printf("%d\n", torchVersionOfNccl()) < 0; }
C
for tags in --enable-new-dtags --disable-new-dtags; do
  $cc -shared -fPIC "$work/torch.c" -o "$work/site/torch/lib/libtorch_cuda.so" "$work/site/nvidia/nccl/lib/libnccl.so.2" \
    -Wl,$tags -Wl,-rpath,'$ORIGIN/../../nvidia/nccl/lib' || exit 1
  $cc "$work/main.c" -o "$work/python$tags" "$work/site/torch/lib/libtorch_cuda.so" -Wl,$tags \
    -Wl,-rpath,"$work/site/torch/lib" -Wl,-rpath-link,"$work/site/nvidia/nccl/lib" || exit 1

  # expect VERSION WHAT COMMAND...
  expect() {
    local version=$1 what=$2 said
    shift 2
    said=$("$@" 2>&1)
    [ "$said" = "$version" ] && return
    echo "FAILED: $what ($tags): NCCL's version is '$said', not $version"
    failed=1
  }
  expect 12345 'nothing done' "$work/python$tags"
  expect 22809 'LD_PRELOAD' env LD_PRELOAD="$library" "$work/python$tags"
  # A run path of the new kind gives way to LD_LIBRARY_PATH, one of the old kind does not.
  expect $([ $tags = --enable-new-dtags ] && echo 22809 || echo 12345) 'LD_LIBRARY_PATH' \
    env LD_LIBRARY_PATH="$(dirname "$library")" "$work/python$tags"
done

# The file in the wheel replaced: libtutti.so.0 must be beside it, as it is no longer where it was installed.
saved=$work/saved
cp "$work/site/nvidia/nccl/lib/libnccl.so.2" "$saved"
tutti=$(ldd "$library" | awk '/libtutti/ { print $3 }')
cp "$library" "$work/site/nvidia/nccl/lib/libnccl.so.2"
cp "$tutti" "$work/site/nvidia/nccl/lib/libtutti.so.0"
expect 22809 'the file replaced' "$work/python$tags"

# A program opens it by its SONAME after something else was loaded under that name: it gets what is there.
cat >"$work/open.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
  void* nccl = dlopen("libnccl.so.2", RTLD_NOW);
  int v = 0;
  int (*version)(int*) = nccl == NULL ? NULL : (int (*)(int*))dlsym(nccl, "ncclGetVersion");
  if (version == NULL || version(&v) != 0) return puts("not found"), 1;
  return printf("%d\n", v) < 0;
}
C
$cc "$work/open.c" -o "$work/open" -ldl || exit 1
expect 22809 'dlopen with LD_PRELOAD' env LD_PRELOAD="$library" "$work/open"
expect 22809 'dlopen with LD_LIBRARY_PATH' env LD_LIBRARY_PATH="$(dirname "$library")" "$work/open"

# As PyTorch 2.11 does: its own NCCL is loaded by its path for everybody to see, then the library that calls it.
cat >"$work/own.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char** argv) {
  void* own = argc < 3 ? NULL : dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  void* torch = own == NULL ? NULL : dlopen(argv[2], RTLD_NOW);
  int (*version)(void) = torch == NULL ? NULL : (int (*)(void))dlsym(torch, "torchVersionOfNccl");
  return version == NULL ? puts("not found"), 1 : printf("%d\n", version()) < 0;
}
C
$cc "$work/own.c" -o "$work/own" -ldl || exit 1
cp "$saved" "$work/site/nvidia/nccl/lib/libnccl.so.2"
both=("$work/site/nvidia/nccl/lib/libnccl.so.2" "$work/site/torch/lib/libtorch_cuda.so")
expect 12345 'its own NCCL by path' "$work/own" "${both[@]}"
expect 22809 'LD_PRELOAD and its own NCCL by path' env LD_PRELOAD="$library" "$work/own" "${both[@]}"

# A profiler defines ncclX and calls pncclX.
cat >"$work/profiler.c" <<'C'
#include <nccl.h>
ncclResult_t ncclGetVersion(int* v) {
  const ncclResult_t result = pncclGetVersion(v);
  *v += 1000000;
  return result;
}
C
$cc -DTUTTI_NCCL_WITHOUT_CUDA -I"$headers" -shared -fPIC "$work/profiler.c" -o "$work/profiler.so" || exit 1
expect 1022809 'a profiler' env LD_PRELOAD="$work/profiler.so $library" "$work/python$tags"
exit $failed
