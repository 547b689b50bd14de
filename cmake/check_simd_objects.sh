#!/bin/sh
# check_simd_objects.sh ISA OBJECT...: fails if an object that is compiled for one instruction set defines a symbol to
# which the linker may bind code that is compiled for another instruction set. Such symbols are weak (inline functions
# and templates) or outside namespace ISA. Symbols DW.ref.* are allowed, because they are pointers that are equal in
# every object.
isa=$1
shift
bad=$(nm -C -o --defined-only --extern-only "$@" | grep -v ' DW\.ref\.' | grep -v " [TDBR] .*::$isa::")
[ -z "$bad" ] && exit 0
echo "error: objects for instruction set $isa define symbols that other files could be linked to:"
echo "$bad"
exit 1
