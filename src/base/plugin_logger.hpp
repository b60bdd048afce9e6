// What NCCL's plugins are given to say things with.
#pragma once

namespace tutti {

/// level: 2 warns, 3 informs.
using PluginLogger = void (*)(int level, unsigned long subjects, const char* file, int line, const char* format, ...);

}  // namespace tutti
