"""Faults that tools/gpu/check_build.py must find, planted in output of its tools and in source text."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/gpu"))
import check_build as check

SASS = """
member lib.a:tensor_forward.cu.o:

Fatbin elf code:
================
arch = sm_90a
		Function : forward
        /*0000*/                   LDC R1, c[0x0][0x28] ;           /* 0x1 */
        /*0010*/               @P0 HMMA.16816.F32.BF16 R4, R8 ;     /* 0x2 */
        /*0020*/              @!PT REDUX.SUM UR4, R0 ;              /* 0x3 */
member lib.a:slots.cu.o:

arch = sm_90a
		Function : histogram_kernel
        /*0000*/                   ATOMS.ADD R1, [R2], R3 ;         /* 0x4 */
"""
USAGE = """
member lib.a:layer_norm.cu.o:

Resource usage:
 Function forward:
  REG:32 STACK:8 SHARED:0 LOCAL:0 CONSTANT[0]:564
"""


class CheckBuild(unittest.TestCase):
    def found(self, sass):
        return check.instructions(sass)

    def test_instructions_are_found_by_object_and_kernel(self):
        kernels, archs = self.found(SASS)
        self.assertEqual(dict(kernels["tensor_forward.cu.o"]["forward"]), {"LDC": 1, "HMMA": 1, "REDUX": 1})
        self.assertEqual(archs, {"tensor_forward.cu.o": {"sm_90a"}, "slots.cu.o": {"sm_90a"}})

    def test_code_for_another_generation_is_found(self):
        self.assertEqual(check.check_generation(self.found(SASS)[1], "90a"), [])
        wrong = self.found(SASS.replace("sm_90a", "sm_90", 1))[1]
        self.assertEqual(check.check_generation(wrong, "90a"), ["tensor_forward.cu.o is for sm_90, not sm_90a"])
        self.assertEqual(check.check_generation({}, "90a"), ["no kernel was found"])

    def test_a_product_without_tensor_cores_is_found(self):
        bad = check.check_needed(self.found(SASS)[0], "90a")
        self.assertNotIn("tensor_forward.cu.o has no HMMA", bad)
        self.assertIn("grouped_forward.cu.o has no HGMMA", bad)
        self.assertNotIn("grouped_forward.cu.o has no HGMMA", check.check_needed(self.found(SASS)[0], "80"))
        bad = check.check_needed(self.found(SASS.replace("HMMA", "FFMA"))[0], "80")
        self.assertIn("tensor_forward.cu.o has no HMMA", bad)

    def test_an_atomic_that_is_not_allowed_is_found(self):
        self.assertEqual(check.check_atomics(self.found(SASS)[0]), [])
        self.assertEqual(check.check_atomics(self.found(SASS.replace("REDUX.SUM", "REDG.E.ADD.F32"))[0]),
                         ["tensor_forward.cu.o: forward has REDG; expected no atomic instruction"])
        self.assertEqual(check.check_atomics(self.found(SASS.replace("histogram_kernel", "sum_kernel"))[0]),
                         ["slots.cu.o: sum_kernel has ATOMS; expected no atomic instruction"])

    def test_stack_and_registers_beyond_the_limit_are_found(self):
        self.assertEqual(check.check_resources(USAGE), [])
        self.assertEqual(check.check_resources(USAGE.replace("STACK:8", "STACK:16")),
                         ["layer_norm.cu.o: forward has 16 bytes of stack; expected at most 8"])
        self.assertEqual(check.check_resources(USAGE.replace("layer_norm", "swiglu")),
                         ["swiglu.cu.o: forward has 8 bytes of stack; expected at most 0"])
        self.assertEqual(check.check_resources(USAGE.replace("REG:32", "REG:200")),
                         ["layer_norm.cu.o: forward has 200 registers; expected at most 168"])

    def test_a_call_that_waits_is_found(self):
        line = "build/libhexad_kernels.a:swiglu.cu.o:                 U {}\n"
        self.assertEqual(check.check_calls(line.format("cudaMemcpyAsync")), [])
        for call in ("cudaMemcpy", "cudaMemset", "cudaDeviceSynchronize", "cudaMalloc", "cudaFree", "cudaLaunchHostFunc"):
            self.assertEqual(check.check_calls(line.format(call)),
                             [f"swiglu.cu.o calls {call}, which only the files in CALLERS may call"])
        self.assertEqual(check.check_calls(line.format("cudaMalloc").replace("swiglu.cu", "pinned_memory.cpp")), [])

    def test_a_launch_on_the_default_stream_is_found(self):
        self.assertEqual(check.check_launches({"a.cu": "k<<<n, f(a, b), 0, s>>>(x)"}), [])
        self.assertEqual(check.check_launches({"a.cu": "k<<<n, f(a, b)>>>(x)"}), ["a.cu: <<<n, f(a, b)>>> names no stream"])

    def test_a_library_that_is_linked_is_found(self):
        line = " 0x0000000000000001 (NEEDED)             Shared library: [{}]\n"
        self.assertEqual(check.check_linked("hexad", line.format("libc.so.6")), [])
        self.assertEqual(check.check_linked("hexad", line.format("libcuda.so.1")),
                         ["hexad does not start without libcuda.so.1"])

    def test_a_function_of_another_name_is_found(self):
        text = 'loaded("libx.so.1"); library().function<decltype(one)>("{}")'
        names = {"libx.so.1": {"one", "two"}}
        self.assertEqual(check.check_functions({"x.cpp": text.format("one")}, names), [])
        self.assertEqual(check.check_functions({"x.cpp": text.format("two")}, names),
                         ["x.cpp: one is loaded as two; expected its own name"])
        self.assertEqual(check.check_functions({"x.cpp": text.format("one")}, {"libx.so.1": set()}),
                         ["libx.so.1 does not export one, which the program loads"])

    def test_a_library_is_found_in_the_first_folder_that_has_it(self):
        with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as full:
            open(f"{full}/libx.so.1", "w").close()
            self.assertEqual(check.path_of("libx.so.1", [empty, full]), f"{full}/libx.so.1")
            with self.assertRaises(SystemExit) as refused:
                check.path_of("liby.so.1", [empty, full])
        self.assertIn(f"liby.so.1 is missing in {empty}, {full}; expected", str(refused.exception))


class Compiler(unittest.TestCase):
    """Tests of cmake/refuse_warnings.sh, around a compiler that prints `said` and exits with `status`."""

    def run_compiler(self, said, status):
        launcher = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../cmake/refuse_warnings.sh")
        script = f"echo {said!r} >&2; exit {status}"
        result = subprocess.run([launcher, "sh", "-c", script], capture_output=True, text=True)
        self.assertIn(said, result.stderr)
        return result.returncode

    def test_serialized_products_are_an_error(self):
        self.assertEqual(self.run_compiler("ptxas info: (C7510) Potential Performance Loss", 0), 1)
        self.assertEqual(self.run_compiler("ptxas info: 0 bytes gmem", 0), 0)
        self.assertEqual(self.run_compiler("error", 2), 2)

    def test_warnings_are_errors(self):
        self.assertEqual(self.run_compiler("ptxas warning : Registers are spilled to local memory", 0), 1)
        self.assertEqual(self.run_compiler("nvlink warning : SM Arch ('sm_90a') not found", 0), 1)
        self.assertEqual(self.run_compiler("Warning: something", 2), 2)


if __name__ == "__main__":
    unittest.main()
