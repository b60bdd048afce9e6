// Layouts that Megatron's guide recommends, beside what the search takes.
#pragma once

/// An exit status.
int guidesTable();
