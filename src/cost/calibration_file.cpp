// Calibration on disk.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
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

std::string movedCalibrationPath(const MachineIdentity& machine) {
  const bool oneFile = !configText("TUTTI_CALIBRATION").empty();
  const std::string path = oneFile ? "" : calibrationPath(machine);
  return path.empty() ? "" : cat(path, "-moved");
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

namespace {

/// A file of figures, and those that are in it.
struct KeptFigures {
  std::string path;                    // empty: nowhere
  std::optional<Calibration> figures;  // as they are in the file; nothing: it is missing or no good
  bool lacking = false;                // those of a transport
  bool good() const { return figures->complete && figures->disturbed <= kMostDisturbed; }
  /// Whether they are to be used as they are.
  bool suffices() const;
};

/// 0 where the file has gone.
int64_t ageSeconds(const std::string& path) {
  struct stat about {};
  return stat(path.c_str(), &about) == 0 ? std::max<int64_t>(time(nullptr) - about.st_mtime, 0) : 0;
}

bool KeptFigures::suffices() const {
  if (!figures || lacking) return false;
  if (good()) return true;
  return figures->times >= kMostTimes && (figures->complete || ageSeconds(path) < kAgainSeconds);
}

KeptFigures keptIn(const std::string& path, const MachineIdentity& machine, const LinkKinds& kinds) {
  KeptFigures kept{path};
  Result<Calibration> read = readCalibration(path, machine);
  if (read.ok()) {
    kept.figures = *read;
    kept.lacking = addMissing(kinds, &*read);
  } else if (access(path.c_str(), F_OK) == 0) {
    TUTTI_WARN("plan", read.status().text(), "; measuring again");
  }
  return kept;
}

/// The distance of cores as `figures` have it; 0: not measured.
double distanceIn(const Calibration& figures, const CoreDistance& now) {
  const ProtocolCosts* costs = figures.find(now.key);
  return costs == nullptr ? 0 : (*costs)[Protocol::Inline].aloneUs[0];
}

bool isOtherPlacement(const Calibration& figures, const CoreDistance& now) {
  const double then = distanceIn(figures, now);
  return then > 0 && now.us > 0 && std::max(then, now.us) > kSameDistance * std::min(then, now.us);
}

/// The figures of the cores' placement now, or where they are to be kept.
KeptFigures keptOfPlacement(KeptFigures first, const MachineIdentity& machine, const LinkKinds& kinds,
                            const MachineGlance& now) {
  const std::string second = movedCalibrationPath(machine);
  if (second.empty() || !first.figures || !first.good() || !now.coreDistance) return first;
  const std::optional<CoreDistance> distance = now.coreDistance();
  if (!distance || !isOtherPlacement(*first.figures, *distance)) return first;
  TUTTI_INFO("plan", "messages between two cores take ", distance->us, " us, and took ",
             distanceIn(*first.figures, *distance), " when ", first.path,
             " was measured: the cores of a virtual machine have moved");
  KeptFigures moved = keptIn(second, machine, kinds);
  if (moved.figures && isOtherPlacement(*moved.figures, *distance)) moved.figures.reset();
  return moved;
}

void sayWhyAgain(const KeptFigures& kept) {
  if (kept.good()) {
    TUTTI_INFO("plan", kept.path, " lacks figures of a transport; measuring again");
  } else {
    TUTTI_INFO("plan", "other programs had ", static_cast<int>(100 * kept.figures->disturbed),
               " % of the processors while link costs were measured",
               kept.figures->complete ? "" : ", and not all could be", "; measuring again");
  }
}

}  // namespace

Result<Calibration> loadOrMeasure(const MachineIdentity& machine, const LinkKinds& kinds,
                                  const std::function<Result<Calibration>(const MachineIdentity&)>& measure,
                                  const MachineGlance& now) {
  if (configText("TUTTI_CALIBRATION") == "off") return defaultCalibration(machine, kinds);
  const std::string first = calibrationPath(machine);
  KeptFigures kept;
  if (!first.empty()) {
    kept = keptIn(first, machine, kinds);
    const bool busy = kept.figures && !kept.lacking && now.othersShare && now.othersShare() > kTooBusy;
    if (busy) return std::move(*kept.figures);
    kept = keptOfPlacement(std::move(kept), machine, kinds, now);
    if (kept.suffices()) return std::move(*kept.figures);
    if (kept.figures) sayWhyAgain(kept);
  }
  TUTTI_ASSIGN(Calibration measured, measure(machine));
  measured.machine = machine;
  if (kept.figures) measured = bestOf(*kept.figures, measured);
  if (!kept.path.empty()) {
    if (const Status status = writeCalibration(kept.path, measured); !status.ok()) {
      TUTTI_WARN("plan", "measured link costs are not kept: ", status.text());
    }
  }
  return measured;
}

}  // namespace tutti
