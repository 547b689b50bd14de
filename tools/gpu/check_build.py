"""check_build.py BUILD_FOLDER: checks the objects of a CUDA build. Needs no GPU. Prints a line per check.
Exits with 1 if a check failed. Needs cuobjdump and nvdisasm (from the toolkit, or from
tools/install-dependencies.sh --cuda), nm and readelf. Also needs the libraries hexad_device and hexad_kernels.
Checks only programs that are at least as new as hexad_kernels."""

import collections
import glob
import os
import re
import subprocess
import sys

# Instructions that must occur in an object file, because it has code that is written for one GPU generation.
NEEDED = {
    "90a": {
        "grouped_forward.cu.o": ("HGMMA", "UTMALDG"),
        "grouped_input_gradient.cu.o": ("HGMMA", "UTMALDG"),
        "grouped_weight_gradient.cu.o": ("HGMMA", "UTMALDG"),
        "grouped_weight_gradient_bf16.cu.o": ("HGMMA", "UTMALDG"),
        "swiglu_gemm.cu.o": ("HGMMA", "UTMALDG"),
        "swiglu_gradient_gemm.cu.o": ("HGMMA", "UTMALDG"),
    }
}
NEEDED_EVERYWHERE = {
    "tensor_forward.cu.o": ("HMMA",),
    "tensor_backward_keys.cu.o": ("HMMA",),
    "tensor_backward_queries.cu.o": ("HMMA",),
}

# Atomic additions in random order would make results differ between runs. Atomic additions of integers, and atomic
# additions that distribute work, are allowed. REDUX, a reduction within a warp, is not an atomic operation.
ATOMIC = re.compile(r"(ATOM|ATOMG|ATOMS|RED|REDG|REDS|UTMAREDG|UREDG)$")
ATOMICS = {
    "capacity.cu.o": ("drop_kernel", "whole numbers of slots"),
    "grouped_forward.cu.o": ("cutlass", "the tile scheduler's counter"),
    "grouped_input_gradient.cu.o": ("cutlass", "the tile scheduler's counter"),
    "grouped_weight_gradient.cu.o": ("cutlass", "the tile scheduler's counter"),
    "grouped_weight_gradient_bf16.cu.o": ("cutlass", "the tile scheduler's counter"),
    "radix_sort.cu.o": ("DeviceRadixSort", "CUB's sort counts digits"),
    "router_loss.cu.o": ("count_kernel", "whole numbers of tokens"),
    "slots.cu.o": ("(place|histogram)_kernel", "whole numbers of slots"),
    "swiglu_gemm.cu.o": ("cutlass", "the tile scheduler's counter"),
    "swiglu_gradient_gemm.cu.o": ("cutlass", "the tile scheduler's counter"),
}

# GPU generation to which the limits of stack and registers below apply.
MEASURED = "90a"
# Bytes of stack that a kernel may use. Each access to the stack goes to memory.
STACK = {
    "embedding.cu.o": (8, "stores an index for each of a few rows"),
    "layer_norm.cu.o": (8, "f64 kernels, whose speed does not matter"),
    "plain_backward.cu.o": (8, "f64 kernels, whose speed does not matter"),
    "tensor_backward_keys.cu.o": (64, "heads of 128 fill all 255 registers"),
    "tensor_forward.cu.o": (56, "heads of 128 fill all 255 registers"),
}
# Registers per thread beyond which fewer than three warps fit on a quarter of a multiprocessor.
REGISTERS = 168
# Files with kernels that are designed to run with few warps.
MANY_REGISTERS = {"plain_backward.cu.o", "tensor_backward_keys.cu.o", "tensor_backward_queries.cu.o", "tensor_forward.cu.o"}

# CUDA calls that wait for the card, manage or query memory, use the default stream, or call host functions. CALLERS are
# the files that may contain such calls.
HIDDEN = re.compile(r"cuda(DeviceSynchronize|StreamSynchronize|EventSynchronize|Malloc\w*|Free\w*|HostAlloc|HostRegister"
                    r"|Memcpy|Memcpy2D|Memset|Memset2D|MemcpyToSymbol\w*|MemcpyFromSymbol\w*|LaunchHostFunc"
                    r"|StreamAddCallback|MemGetInfo)$")
CALLERS = {
    "card_memory.cpp.o": "called before a run allocates memory, and around the setup of connections between ranks",
    "pinned_memory.cpp.o": "memory is its purpose",
    "plain_memory.cpp.o": "memory is its purpose",
    "queue.cpp.o": "waiting is its purpose",
    "cudnn_plan.cpp.o": "calls in cuDNN's front end, in code that is not used",
}
THEIRS = re.compile(r"lib(cuda|cublas|cublasLt|cudnn|nvrtc|nccl|cudart)\b")


def members(text):
    """Yields pairs (object file, its lines) from cuobjdump's output for a library."""
    name, lines = None, []
    for line in text.splitlines():
        if line.startswith("member "):
            if name:
                yield name, lines
            name, lines = line.rstrip(":\n ").rsplit(":", 1)[1], []
        else:
            lines.append(line)
    if name:
        yield name, lines


def instructions(sass):
    """Returns {object file: {kernel: Counter of instructions}} and {object file: generations}."""
    kernels, archs = collections.defaultdict(dict), collections.defaultdict(set)
    operation = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)")
    for name, lines in members(sass):
        counter = None
        for line in lines:
            if line.startswith("arch = "):
                archs[name].add(line.split("=")[1].strip())
            elif "Function : " in line:
                counter = kernels[name][line.split("Function : ")[1].strip()] = collections.Counter()
            elif counter is not None and (found := operation.match(line)):
                counter[found.group(1)] += 1
    return kernels, archs


def check_generation(archs, wanted):
    return [f"{name} is for {', '.join(sorted(found))}, not sm_{wanted}"
            for name, found in archs.items() if found != {f"sm_{wanted}"}] or ([] if archs else ["no kernel was found"])


def check_needed(kernels, generation):
    bad = []
    for name, wanted in {**NEEDED_EVERYWHERE, **NEEDED.get(generation, {})}.items():
        for instruction in wanted:
            if not any(counter[instruction] for counter in kernels.get(name, {}).values()):
                bad.append(f"{name} has no {instruction}")
    return bad


def check_atomics(kernels):
    bad = []
    for name, functions in kernels.items():
        pattern = ATOMICS.get(name, (None,))[0]
        for function, counter in functions.items():
            found = sorted(i for i in counter if ATOMIC.match(i))
            if found and not (pattern and re.search(pattern, function)):
                bad.append(f"{name}: {function} has {', '.join(found)}; expected no atomic instruction")
    return bad


def check_resources(usage):
    """Returns the problems found in the output of cuobjdump --dump-resource-usage."""
    bad = []
    for name, lines in members(usage):
        function = "?"
        for line in lines:
            if found := re.search(r"Function (\S+):", line):
                function = found.group(1)
            if not (found := re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", line)):
                continue
            registers, stack, local = map(int, found.groups())
            if stack + local > STACK.get(name, (0,))[0]:
                bad.append(f"{name}: {function} has {stack + local} bytes of stack; expected at most {STACK.get(name, (0,))[0]}")
            if registers > REGISTERS and name not in MANY_REGISTERS:
                bad.append(f"{name}: {function} has {registers} registers; expected at most {REGISTERS}")
    return bad


def check_calls(undefined):
    """Returns the problems found in the output of nm -A --undefined-only: "LIBRARY:OBJECT: U NAME"."""
    bad = []
    for line in undefined.splitlines():
        found = re.match(r".*:(\S+\.o):\s+U (\w+)", line)
        if found and HIDDEN.match(found.group(2)) and found.group(1) not in CALLERS:
            bad.append(f"{found.group(1)} calls {found.group(2)}, which only the files in CALLERS may call")
    return bad


def check_linked(program, dynamic):
    """Returns the problems found in the output of readelf -d."""
    return [f"{program} does not start without {name}" for name in re.findall(r"NEEDED.*\[(.*)\]", dynamic)
            if THEIRS.match(name)]


def check_launches(sources):
    """Returns the kernel launches without a stream argument. `sources` is {file: text}."""
    bad = []
    for name, text in sources.items():
        for launch in re.findall(r"<<<(.*?)>>>", text, re.S):
            depth, arguments = 0, 1
            for c in launch:
                depth += (c in "([{") - (c in ")]}")
                arguments += c == "," and depth == 0
            if arguments != 4:
                bad.append(f"{name}: <<<{' '.join(launch.split())}>>> names no stream")
    return bad


def check_functions(sources, exported):
    """Returns the functions that are loaded under a name other than their own, or that their library lacks.
    `sources` is {file: text} of the functions that load libraries; `exported` is {library: names in it}."""
    bad = []
    for name, text in sources.items():
        library = re.search(r'loaded\("([^"]+)"\)', text).group(1)
        for declared, asked in re.findall(r'function<decltype\((\w+)\)>\(\s*"(\w+)"\)', text):
            if declared != asked:
                bad.append(f"{name}: {declared} is loaded as {asked}; expected its own name")
            if asked not in exported[library]:
                bad.append(f"{library} does not export {asked}, which the program loads")
    return bad


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=True).stdout


def read(pattern):
    return {os.path.relpath(path): open(path).read() for path in sorted(glob.glob(pattern, recursive=True))}


def path_of(library, folders):
    """Returns the path of a library in the first of these folders that has it. Exits if none has it."""
    for folder in folders:
        if os.path.exists(f"{folder}/{library}"):
            return f"{folder}/{library}"
    sys.exit(f"check_build: {library} is missing in {', '.join(folders) or 'no folder'}; expected it beside CUDA_CUDART or "
             "HEXAD_CUDNN_LIBRARY of CMakeCache.txt")


def main():
    build = sys.argv[1]
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    cache = dict(re.findall(r"^(\w+):\w+=(.*)$", open(f"{build}/CMakeCache.txt").read(), re.M))
    generation = cache["HEXAD_CUDA_ARCH"]
    device, kernels = f"{build}/framework/device/libhexad_device.a", f"{build}/framework/kernels/libhexad_kernels.a"
    os.environ["PATH"] += "".join(f":{source}/build/cuda-tools/{name}" for name in ("cuobjdump", "nvdisasm"))
    found, archs = instructions(run("cuobjdump", "--dump-sass", kernels))
    count = sum(len(functions) for functions in found.values())
    functions = read(f"{source}/framework/kernels/cuda/libraries/*.cpp")
    folders = [os.path.dirname(cache[name]) for name in ("CUDA_CUDART", "HEXAD_CUDNN_LIBRARY") if name in cache]
    exported = {}
    for text in functions.values():
        library = re.search(r'loaded\("([^"]+)"\)', text).group(1)
        path = path_of(library, folders)
        exported[library] = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", path).splitlines()}
    programs = [p for p in sorted(glob.glob(f"{build}/bin/hexad") + glob.glob(f"{build}/tests/test_*") + glob.glob(f"{build}/bench/*"))
                if os.path.isfile(p) and os.access(p, os.X_OK) and os.path.getmtime(p) >= os.path.getmtime(kernels)]
    checks = {
        f"{count} kernels are for sm_{generation}": check_generation(archs, generation),
        "products and attention run on tensor cores": check_needed(found, generation),
        "atomics add only whole numbers": check_atomics(found),
        "registers and stack are within their limits": check_resources(run("cuobjdump", "--dump-resource-usage", kernels)),
        "only intended waits and allocations": check_calls(run("nm", "-A", "--undefined-only", device, kernels)),
        "every launch names its stream": check_launches(read(f"{source}/framework/kernels/cuda/**/*.cu*")),
        "libraries have every function that is called": check_functions(functions, exported),
        f"{len(programs)} programs start without NVIDIA's libraries":
            [bad for p in programs for bad in check_linked(os.path.basename(p), run("readelf", "-d", p))],
    }
    if generation != MEASURED:
        del checks["registers and stack are within their limits"]
    for what, bad in checks.items():
        print(f"check_build: {what}: {'ok' if not bad else 'FAILED'}")
        for line in bad:
            print(f"  {line}")
    sys.exit(any(checks.values()))


if __name__ == "__main__":
    main()
