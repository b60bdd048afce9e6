// What is in a folder.
#pragma once

#include <dirent.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// The names in a folder, sorted, but for "." and "..".  Nothing, with errno set: it cannot be read.
/// Not by std::filesystem, whose iterators end the process where there is no memory for a name; here that is
/// std::bad_alloc.
inline std::optional<std::vector<std::string>> namesIn(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), [](DIR* open) { return closedir(open); });
  if (folder == nullptr) return std::nullopt;
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tutti
