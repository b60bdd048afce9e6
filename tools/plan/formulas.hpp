// Published tables that follow from formulas: what is sent, and what waits.  Exit statuses.
#pragma once

/// DualPipe beside 1F1B and zero bubble: idle time, parameters, activations.
int dualPipeTable();
/// Ulysses, a ring and tensor parallelism with sequence parallelism: bytes of a layer.
int contextTable();
/// ZeRO++ beside ZeRO 3: bytes of an element between nodes.
int zeroPlusTable();
/// A parameter server beside an all-reduce: bytes through the busiest adapter.
int serverTable();
