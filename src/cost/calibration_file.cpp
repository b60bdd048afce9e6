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
  bool good() const { return figures->good(); }
  /// Whether something is left to a later start, and no start has tried that in vain too often.
  bool lacksLater() const { return good() && !figures->whole && figures->times < kMostTimes; }
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
  KeptFigures kept{.path = path, .figures = {}};
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

/// Whether cores are nearer to each other than when the figures were measured.
bool coresAreNearer(const KeptFigures& kept, const MachineGlance& now) {
  const bool named = !configText("TUTTI_CALIBRATION").empty();  // the user's own file stays as it is
  if (named || !kept.figures || !kept.good() || !now.coreDistance) return false;
  const std::optional<CoreDistance> distance = now.coreDistance();
  if (!distance) return false;
  const double then = distanceIn(*kept.figures, *distance);
  const bool nearer = distance->us > 0 && then > kSameDistance * distance->us;
  const bool further = then > 0 && distance->us > kSameDistance * then;
  if (nearer || further) {
    TUTTI_INFO("plan", "messages between two cores take ", distance->us, " us, and took ", then, " when ", kept.path,
               " was measured: the cores of a virtual machine have moved", nearer ? "; measuring again" : "");
  }
  return nearer;
}

void sayWhyAgain(const KeptFigures& kept) {
  if (kept.good() && kept.lacking) {
    TUTTI_INFO("plan", kept.path, " lacks figures of a transport; measuring again");
  } else if (!kept.good()) {
    TUTTI_INFO("plan", "other programs had ", static_cast<int>(100 * kept.figures->disturbed),
               " % of the processors while link costs were measured",
               kept.figures->complete ? "" : ", and not all could be", "; measuring again");
  }
}

void keep(const Calibration& figures, const std::string& path) {
  if (const Status status = writeCalibration(path, figures); !status.ok())
    TUTTI_WARN("plan", "measured link costs are not kept: ", status.text());
}

}  // namespace

Result<Calibration> loadOrMeasure(const MachineIdentity& machine, const LinkKinds& kinds, const Measuring& measuring,
                                  const MachineGlance& now) {
  if (configText("TUTTI_CALIBRATION") == "off") return defaultCalibration(machine, kinds);
  KeptFigures kept{.path = calibrationPath(machine), .figures = {}};
  if (!kept.path.empty()) {
    kept = keptIn(kept.path, machine, kinds);
    const bool busy = kept.figures && !kept.lacking && now.othersShare && now.othersShare() > kTooBusy;
    if (busy) return std::move(*kept.figures);
    if (kept.suffices() && !coresAreNearer(kept, now)) {
      if (!kept.lacksLater() || !measuring.later) return std::move(*kept.figures);
      TUTTI_ASSIGN(Calibration more, measuring.later(*kept.figures));
      keep(more, kept.path);
      return more;
    }
    if (kept.figures) sayWhyAgain(kept);
  }
  TUTTI_ASSIGN(Calibration measured, measuring.measure(machine));
  measured.machine = machine;
  if (kept.figures) measured = bestOf(*kept.figures, measured);
  if (!kept.path.empty()) keep(measured, kept.path);
  return measured;
}

}  // namespace tutti
