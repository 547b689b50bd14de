#!/bin/sh
# check_simd_objects.sh ISA OBJECT...: checks objects that are compiled for the instruction set ISA. Fails if the linker
# could bind a symbol of the objects to code for another instruction set. Such symbols are weak (inline functions and
# templates) or outside namespace ISA. Symbols DW.ref.* are allowed, because they are pointers that are equal in every
# object.
isa=$1
shift
bad=$(nm -C -o --defined-only --extern-only "$@" | grep -v ' DW\.ref\.' | grep -v " [TDBR] .*::$isa::")
[ -z "$bad" ] && exit 0
echo "error: objects for instruction set $isa define symbols that other files could be linked to;" \
  "expected only strong symbols in namespace $isa:"
echo "$bad"
exit 1
