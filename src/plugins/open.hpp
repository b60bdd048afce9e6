// How plugins of all kinds are opened: the library, then the newest version of the interface that it exports.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <span>
#include <string>

#include "src/base/plugin.hpp"
#include "src/base/status.hpp"

namespace tutti {

/// A version of an interface to plugins.
template <class Plugin, class Subject>
struct PluginVersion {
  const char* symbol;
  /// Initialises the plugin whose table this is.  Errors: InvalidUsage: a clause.
  Result<std::unique_ptr<Plugin>> (*adapt)(const void* table, const Subject& subject);
};

/// The plugin that `variable` names, by the first of `versions` that it exports; null: `plugin` is empty or "none".
/// Errors: InvalidUsage naming the variable.
template <class Plugin, class Subject, size_t N>
Result<std::unique_ptr<Plugin>> openPlugin(std::string_view kind, std::string_view variable, const std::string& plugin,
                                           const PluginVersion<Plugin, Subject> (&versions)[N],
                                           const Subject& subject) {
  if (plugin.empty() || plugin == "none") return std::unique_ptr<Plugin>();
  const auto refused = [&](const std::string& why) {
    return invalidUsage(ErrorCode::PluginLoad, variable, "=", plugin, ": ", why,
                        "; name a plugin that can be used, or leave the variable unset to do without");
  };
  const Result<void*> library = loadPlugin(kind, plugin);
  if (!library.ok()) return refused(library.status().message());
  std::string symbols;
  for (const auto& version : versions) {
    symbols += cat(symbols.empty() ? "" : ", ", version.symbol);
    const void* const table = dlsym(*library, version.symbol);
    if (table == nullptr) continue;
    Result<std::unique_ptr<Plugin>> opened = version.adapt(table, subject);
    return opened.ok() ? std::move(opened) : refused(opened.status().message());
  }
  return refused(cat("is loaded, but exports none of ", symbols));
}

}  // namespace tutti
