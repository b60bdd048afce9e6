# A recipe for Spack: a folder packages/tutti of a repository (spack repo add) gets this file.
from spack.package import *


class Tutti(MesonPackage):
    """Collective communication for threads, processes and hosts: AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast
    and more on CPU and CUDA memory, over shared memory, TCP, InfiniBand verbs and UCX."""

    homepage = "https://tutti.invalid"
    git = "https://tutti.invalid/tutti.git"

    license("Apache-2.0")

    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    variant("cuda", default=False, description="kernels for CUDA devices")
    variant("hwloc", default=True, description="places of cores and devices by hwloc")
    variant("tools", default=True, description="tutti-run, tutti-info and the *_perf programs")
    variant("ucx", default=True, description="the transport over UCX")
    variant("verbs", default=True, description="the transport over InfiniBand and RoCE")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("meson@1.0:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3:", type="build")
    depends_on("highway")
    depends_on("nlohmann-json")
    depends_on("pugixml")
    depends_on("cli11", when="+tools")
    depends_on("cuda@12:", when="+cuda")
    depends_on("hwloc@2:", when="+hwloc")
    depends_on("rdma-core", when="+verbs")
    depends_on("ucx@1.13:", when="+ucx")

    requires("%gcc@11:", "%clang@14:", policy="one_of", msg="Tutti is C++20")

    def meson_args(self):
        features = ["cuda", "hwloc", "tools", "ucx", "verbs"]
        wanted = [f"-D{name}={'enabled' if f'+{name}' in self.spec else 'disabled'}" for name in features]
        return wanted + ["-Dtests=disabled", "--unity=on", "--unity-size=12"]

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        if "+tools" not in self.spec:
            return
        run = Executable(join_path(self.prefix.bin, "tutti-run"))
        run("-n", "2", join_path(self.prefix.bin, "all_reduce_perf"), "-b", "8", "-e", "1M", "-f", "16")
