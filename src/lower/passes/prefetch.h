// Transfers run behind computation: exchanges may begin ahead of their turn, and have their turn as
// late as is cheap.
#pragma once

#include "lower/program.h"
#include "plan/plan.h"

namespace tessera {

/// 1. Turns: an exchange whose result is read only later than by what follows it has its turn as
/// late as before its first reader, as long as
///    what waits so on its mesh holds no more than `window` bytes: then the oldest has its turn. So
///    the sums of a bucket of gradients are due when the next bucket is full, or when the optimizer
///    wants them.
/// 2. Begins: an exchange may begin behind the instruction that made what it pulls
/// (Instruction::after), as long as the results under way on
///    its mesh are at most kMaxPrefetches, of at most `window` bytes. So the input of the next
///    micro-batch comes while this one is computed, and a parameter is gathered while the layers
///    before it are.
///
///   requires  instructions in the order in which they will run
///   ensures   each still comes after what it reads; registers of variables are filled and read in
///   their turn as before; nothing changes
///             with a window of 0
///   memory    at most 2 * window more at one time
void schedule_prefetches(Program& program, Bytes window = kPrefetchWindow);
inline constexpr int kMaxPrefetches = 4;

/// "dw #1 may begin 5 kernels ahead", a line each.
std::string prefetch_text(const Program& program);

}  // namespace tessera
