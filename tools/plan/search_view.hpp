// tutti-plan's search of layouts, and one layout that is given.
#pragma once

/// Prints the ten best layouts for what the arguments describe, and why the others lost; with --layout what that one
/// costs, and where its time goes.  An exit status.
int planLayouts(int argc, char** argv);
