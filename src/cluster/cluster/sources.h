// Where the values of a cluster come from, and what identifies them.
//
// A source of a place (cluster/cluster/internal/place.h) holds for everything below it that has no
// source of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster/description.h"

namespace tessera {

/// The source that holds for a place: the one of the longest place around it; "" without one.
std::string source_of(const ClusterDescription& description, std::string_view place);

/// The places of the values without a source. Names, and texts for readers, need none.
std::vector<std::string> places_without_source(const ClusterDescription& description);

/// Identifies the values: 16 hexadecimal digits of a hash of the document without its name, its
/// texts for readers and the peaks of data sheets. Clusters of one fingerprint give the same
/// predictions.
std::string fingerprint(const ClusterDescription& description);

/// "2026-11-23", in UTC, for sources.
std::string today();

}  // namespace tessera
