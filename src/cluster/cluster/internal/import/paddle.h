// The cluster file of Paddle's automatic parallelism.
#pragma once

#include <string>
#include <string_view>

#include "base/files/document.h"
#include "cluster/cluster/description.h"

namespace tessera {

/// Whether a JSON document is one: it has `machines` with `devices`.
bool is_paddle_cluster(const Document& document);

/// Accelerators are the devices; where there are none, CPUs. Memory and bandwidths of the file are
/// in GB and GB/s, latencies in microseconds; numbers may be texts, as "32".
///
///   throws  UserError (78) with the path of the key: a value that is missing, no number, negative
///           or 0; two devices of one id, two machines of one name, links to unknown devices or
///           whose directions differ
ClusterDescription parse_paddle_cluster(const Document& document, const std::string& file);

}  // namespace tessera
