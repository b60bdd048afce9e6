#include "src/topology/rates.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace tutti::topology {
namespace {

constexpr double kPcieShare = 0.75;  // measured copies reach 12 GB/s of the 16 of 8 GT/s x16

/// Data bits per transferred bit: 8b/10b below 8 GT/s.  128b/130b above is inside kPcieShare.
double encodingShare(double gtPerSecond) { return gtPerSecond < 8 ? 0.8 : 1; }

}  // namespace

double pcieGBps(double gtPerSecond, int width) {
  return gtPerSecond * encodingShare(gtPerSecond) * width / 8 * kPcieShare;
}

double assumedPcieGBps() { return pcieGBps(8, 16); }

void pcieFromRate(double rateGBps, double* gtPerSecond, int* width) {
  *gtPerSecond = 0;
  *width = 0;
  if (!(rateGBps > 0)) return;
  double nearest = INFINITY;
  for (const int lanes : {16, 8, 4, 2, 1}) {
    for (const double speed : {2.5, 5.0, 8.0, 16.0, 32.0, 64.0}) {
      const double rate = speed * (speed < 8 ? 0.8 : 128.0 / 130) * lanes / 8;
      const double distance = std::abs(std::log(rate / rateGBps));
      if (distance < nearest - 1e-3) {
        nearest = distance;
        *gtPerSecond = speed;
        *width = lanes;
      }
    }
  }
}

double parseLinkSpeed(std::string_view text) {
  if (text.empty() || text.starts_with("Unknown")) return 0;
  double speed = 0;
  const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), speed);
  const std::string_view rest(next, static_cast<size_t>(text.data() + text.size() - next));
  const bool fits = error == std::errc() && rest.starts_with(" GT/s");
  return fits && speed >= 0 && speed <= 1024 ? speed : -1;
}

// NVLink 1 to 5: raw 20, 25, 25, 26.6 (half-width A10-class bridges 14) and 53 GB/s; what copies reach is below.
// These are also the figures that NCCL plans with.
double nvlinkGBps(int sm) {
  if (sm >= 100) return 40.1;
  if (sm >= 90) return 20.6;
  if (sm == 86 || sm == 89) return 12;
  if (sm >= 70) return 20;
  if (sm >= 60) return 18;
  return 20;  // unknown
}

double nvlinkGBpsOfGeneration(int generation) {
  constexpr int kFirstSm[] = {0, 60, 70, 80, 90, 100};  // the GPUs that a generation came with
  return nvlinkGBps(generation >= 1 && generation <= 5 ? kFirstSm[generation] : 0);
}

// NVIDIA's product pages; sm 61 and 62, 72, 87, 110, 121 are consumer GPUs without a bridge and systems on a chip.
bool mayHaveNvlinks(int sm) {
  return sm == 60 || sm == 70 || sm == 75 || sm == 80 || sm == 86 || sm == 90 || (sm >= 100 && sm < 110);
}

bool mayHaveXgmi(std::string_view gcn) {
  if (gcn.starts_with("gfx")) gcn.remove_prefix(3);
  constexpr std::string_view kServers[] = {"906", "908", "90a", "910", "940", "941", "942", "950"};
  return std::ranges::find(kServers, gcn) != std::end(kServers);
}

// The figures that RCCL plans with: Vega 24, MI200 36, MI300 48.
double xgmiGBps(std::string_view gcn) {
  if (gcn.starts_with("gfx")) gcn.remove_prefix(3);
  if (gcn.starts_with("94") || gcn.starts_with("95")) return 48;
  if (gcn == "90a" || gcn == "910") return 36;
  return 24;
}

double socketGBps(const CpuInfo& cpu) {
  if (cpu.arch == "ppc64" || cpu.arch == "ppc64le") return 32;
  if (cpu.arch == "arm64" || cpu.arch == "aarch64") return 6;
  if (cpu.vendor == "AuthenticAMD") return 16;
  if (cpu.vendor == "GenuineIntel" && cpu.family == 6) {
    switch (cpu.model) {
      case 207:             // Emerald Rapids
      case 173: return 40;  // Granite Rapids
      case 143: return 22;  // Sapphire Rapids
      case 85:              // Skylake to Cooper Lake
      case 106: return 10;  // Ice Lake
      default: return 6;
    }
  }
  return 6;
}

int assumedNetMbps() { return 10000; }

std::string formatGBps(double gbps) {
  char text[32];
  std::snprintf(text, sizeof text, gbps >= 100 ? "%.0f" : gbps >= 1 ? "%.1f" : "%.3f", gbps);
  std::string result = text;
  while (result.find('.') != std::string::npos && (result.back() == '0' || result.back() == '.')) {
    const bool point = result.back() == '.';
    result.pop_back();
    if (point) break;
  }
  return result;
}

}  // namespace tutti::topology
