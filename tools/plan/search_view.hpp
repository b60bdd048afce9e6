// tutti-plan's search of layouts.
#pragma once

/// Prints the ten best layouts for what the arguments describe, and why the others lost; an exit status.
int searchLayouts(int argc, char** argv);
