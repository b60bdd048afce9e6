// Folders of interfaces as the system shows them, made of files.
#include "src/base/interface_speed.hpp"

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/support/temp_folder.hpp"

using namespace tutti;

namespace {

namespace fs = std::filesystem;

class Interfaces : public test::TempFolder {
 public:
  void add(const std::string& name, const std::string& speed, const std::string& state = "up") const {
    write(name + "/operstate", state + "\n");
    if (!speed.empty()) write(name + "/speed", speed + "\n");
  }
  void adapter(const std::string& name, const std::string& driver, const std::string& speed) const {
    add(name, speed);
    write(name + "/device/vendor", "0x15b3\n");
    fs::create_symlink("../../../bus/drivers/" + driver, fs::path(path()) / name / "device/driver");
  }
  void over(const std::string& name, const std::string& lower) const {
    fs::create_symlink("../" + lower, fs::path(path()) / name / ("lower_" + lower));
  }
};

}  // namespace

TEST_CASE("the speed of an adapter is believed, and of what lies on adapters alone; what others state is made up") {
  const Interfaces in;
  in.adapter("eth0", "mlx5_core", "25000");
  in.adapter("eth1", "mlx5_core", "25000");
  in.adapter("down0", "igb", "-1");
  in.adapter("vm0", "virtio_net", "10000");
  in.add("veth0", "10000");
  in.add("bond0", "50000");
  in.over("bond0", "eth0");
  in.over("bond0", "eth1");
  in.add("vlan7", "50000");
  in.over("vlan7", "bond0");
  in.add("br0", "25000");
  in.over("br0", "eth0");
  in.over("br0", "veth0");
  in.add("loop0", "100");
  in.over("loop0", "loop0");  // which no system shows
  struct Row {
    const char* name;
    uint32_t stated, known;
  };
  for (const Row& row : {Row{"eth0", 25000, 25000}, Row{"down0", 0, 0}, Row{"vm0", 10000, 0}, Row{"veth0", 10000, 0},
                         Row{"bond0", 50000, 50000}, Row{"vlan7", 50000, 50000}, Row{"br0", 25000, 0},
                         Row{"loop0", 100, 0}, Row{"none0", 0, 0}}) {
    CAPTURE(row.name);
    CHECK(statedMbps(row.name, in.path()) == row.stated);
    CHECK(knownMbps(row.name, in.path()) == row.known);
  }
}

TEST_CASE("the fastest interface is one whose speed can be believed, where there is such a one") {
  const Interfaces in;
  CHECK(fastestMbps(in.path()) == 0);
  in.add("lo", "100000", "unknown");
  in.add("dummy0", "40000", "down");
  CHECK(fastestMbps(in.path()) == 0);
  in.add("veth0", "10000");
  CHECK(fastestMbps(in.path()) == 10000);
  in.adapter("eth0", "igb", "1000");
  CHECK(fastestMbps(in.path()) == 1000);
}
