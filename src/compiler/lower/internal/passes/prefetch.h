// Prefetch: exchanges are issued early, so that they run while kernels compute, and are waited for
// as late as is cheap.
#pragma once

#include "compiler/lower/internal/program.h"
#include "compiler/plan/plan.h"

namespace tessera {

/// 1. Position: an exchange whose result is first read later is moved down, to before its first
///    reader, as long as the exchanges that wait so on its mesh hold at most `window` bytes and are
///    at most kMaxPrefetches / 2; then the oldest of them is placed. A sum over micro-batches and
///    an exchange that read what waits wait with it. So the sums of a bucket of gradients are due
///    when the next bucket is full, or when the optimizer needs them.
/// 2. Two levels: an exchange whose result only the next one reads is moved up, to before the
///    second level of the pair before, so that its own second level can be issued early.
/// 3. Issue point: an exchange may be issued after the instruction that writes its source
///    (InstructionInstance::issue_after), as long as at most kMaxPrefetches results, of at most
///    `window` bytes, are in flight on its mesh; of an exchange of several parts also only while no
///    more is alive at once than at its turn. So the input of the next micro-batch is received
///    while this one is computed, and a parameter is gathered while the layers before it are
///    computed.
///
/// In a rolled program all are decided for each micro-batch, so that the first ones, which fill
/// the pipeline, may differ from the others: only Program::order changes.
///
///   requires  the order of the instances is that in which they will run
///   ensures   each exchange still comes after the instruction that writes its source; registers of
///             variables are filled and read at their turn as before; nothing changes with a window
///             of 0
///   memory    at most 2 * window more at one time
void schedule_prefetches(Program& program, Bytes window = kPrefetchWindow);
inline constexpr int kMaxPrefetches = 16;

/// "dw #1 may be issued 5 kernels early", a line each.
std::string prefetch_text(const Program& program);

}  // namespace tessera
