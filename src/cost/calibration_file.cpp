// Calibration on disk.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/cost/calibration.hpp"
#include "src/cost/kept_text.hpp"

namespace tutti {
namespace {

/// The user's folder for what can be made again.  It is made where it is missing, the folder that it belongs in never:
/// service users have homes that are not there, and who may write anywhere would make them.  Empty: there is none.
std::string cacheFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const bool given = cache != nullptr && *cache == '/';  // the XDG rules say that a relative one is to be ignored
  std::filesystem::path folder;
  if (given) {
    folder = std::filesystem::path(cat(cache, "/")).lexically_normal().parent_path();
  } else if (home != nullptr && *home == '/') {
    folder = std::filesystem::path(home) / ".cache";
  } else {
    return "";
  }
  std::error_code error;
  const std::filesystem::path holder = folder.parent_path();
  if (std::filesystem::is_directory(folder, error) || std::filesystem::is_directory(holder, error)) return folder;
  static std::once_flag said;
  std::call_once(said, [&] {
    TUTTI_INFO("plan", "there is no folder ", holder.native(), given ? " (XDG_CACHE_HOME)" : " (HOME)",
               ": measured link costs are not kept; TUTTI_CALIBRATION names a file for them");
  });
  return "";
}

}  // namespace

std::string calibrationPath(const MachineIdentity& machine) {
  const std::string given = configText("TUTTI_CALIBRATION");
  if (given == "off") return "";
  if (!given.empty()) return given;
  const std::string folder = cacheFolder();
  if (folder.empty()) return "";
  const uint64_t hash =
      hashText(cat(Calibration::kVersion, "\n", machine.cpu, "\n", machine.cores, "\n", machine.host));
  std::array<unsigned char, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(hash >> (56 - 8 * i));
  return cat(folder, "/tutti/calibration-", toHex(bytes.data(), bytes.size()));
}

Result<Calibration> readCalibration(const std::string& path, const MachineIdentity& machine) {
  TUTTI_ASSIGN(const std::string text, readKeptFile(path, "calibration", kMostCalibrationBytes));
  auto parsed = parseCalibration(text);
  if (!parsed.ok())
    return invalidArgument(ErrorCode::KeptFigures, "calibration ", path, " ", parsed.status().message());
  if (!(parsed->machine == machine)) {
    const MachineIdentity& other = parsed->machine;
    return invalidArgument(ErrorCode::KeptFigures, "calibration ", path, " is of another machine (", other.host, ", ",
                           other.cpu, ", ", other.cores, " cores)");
  }
  return parsed;
}

Status writeCalibration(const std::string& path, const Calibration& calibration) {
  return writeKeptFile(path, toText(calibration));
}

Result<Calibration> loadOrMeasure(const MachineIdentity& machine, const LinkKinds& kinds,
                                  const std::function<Result<Calibration>(const MachineIdentity&)>& measure) {
  if (configText("TUTTI_CALIBRATION") == "off") return defaultCalibration(machine, kinds);
  const std::string path = calibrationPath(machine);
  std::optional<Calibration> before;
  if (!path.empty()) {
    auto kept = readCalibration(path, machine);
    const bool lacks = kept.ok() && addMissing(kinds, &*kept);
    const bool good = kept.ok() && kept->complete && kept->disturbed <= kMostDisturbed;
    if (!lacks && (good || (kept.ok() && kept->times >= kMostTimes))) return kept;
    if (good) {
      TUTTI_INFO("plan", path, " lacks figures of a transport; measuring again");
      before = std::move(*kept);
    } else if (kept.ok()) {
      TUTTI_INFO("plan", "other programs had ", static_cast<int>(100 * kept->disturbed),
                 " % of the processors while link costs were measured", kept->complete ? "" : ", and not all could be",
                 "; measuring again");
      before = std::move(*kept);
    } else if (access(path.c_str(), F_OK) == 0) {
      TUTTI_WARN("plan", kept.status().text(), "; measuring again");
    }
  }
  TUTTI_ASSIGN(Calibration measured, measure(machine));
  measured.machine = machine;
  if (before) measured = bestOf(*before, measured);
  if (!path.empty()) {
    if (const Status status = writeCalibration(path, measured); !status.ok()) {
      TUTTI_WARN("plan", "measured link costs are not kept: ", status.text());
    }
  }
  return measured;
}

}  // namespace tutti
