// What NCCL's plugins are given to say things with.
#pragma once

namespace tutti {

/// Levels of a PluginLogger.
inline constexpr int kPluginWarns = 2, kPluginInforms = 3;

using PluginLogger = void (*)(int level, unsigned long subjects, const char* file, int line, const char* format, ...);

}  // namespace tutti
