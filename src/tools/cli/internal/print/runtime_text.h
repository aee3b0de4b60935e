// Whose software runs a predicted step, as text for readers and as JSON.
#pragma once

#include <string>

#include "base/files/document.h"
#include "base/units.h"
#include "cluster/cluster/cluster.h"
#include "cluster/cluster/runtime_profile.h"

namespace tessera {

/// Whose software was predicted, and how far such steps are from their predictions; "" of our own.
std::string runtime_text(const RuntimeProfile& runtime, Seconds step);
/// The same as keys "runtime" and, where it is known, "interval_ms".
void add_runtime(const RuntimeProfile& runtime, Seconds step, Document& document);

/// Of devices that have no arithmetic of this type; "" where all have. Their products are priced at
/// their rate of f32.
std::string emulated_note(const Cluster& cluster, DType products);

}  // namespace tessera
