// Threads of this process: the library's own, and the program's.
#pragma once

namespace tutti {

/// The calling thread is the library's own: it makes no calls of the program's.  name: at most 15 characters, "tutti-"
/// first.
void nameOwnThread(const char* name);

/// Whether all threads but one are the library's own: what that one does not do, nobody does.  Counts threads of other
/// libraries as the program's.  False, too, where it cannot be known.
bool hasOneProgramThread();

}  // namespace tutti
