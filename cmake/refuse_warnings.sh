#!/bin/sh
# refuse_warnings.sh COMMAND...: runs COMMAND, a call of the CUDA compiler. Fails if its output contains a warning, for
# example of nvcc, cudafe++, ptxas or nvlink. Also fails on the remark C7510, which says that products on tensor cores
# are serialised and therefore slow. CUTLASS causes this remark if NDEBUG is not defined.
said=$("$@" 2>&1)
status=$?
[ -z "$said" ] || printf '%s\n' "$said" >&2
[ $status -eq 0 ] || exit $status
case $said in
*C7510*)
  echo 'error: products on tensor cores are serialised (C7510); expected -DNDEBUG in the flags' >&2
  exit 1
  ;;
*[Ww]arning*)
  echo 'error: warnings of the CUDA compiler are errors' >&2
  exit 1
  ;;
esac
