// The constants of a cluster that measured runs correct, each by a factor of its time.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cluster/cluster/description.h"
#include "kernels/work.h"

namespace tessera {

/// A constant of a type of device, or of a level of links.
struct Constant {
  enum class Kind : uint8_t {
    kKernels,    // the time of the kernels of a class beside their launch
    kLaunch,     // every launch of a type
    kCopies,     // the time of a byte that is copied in the memory of a type
    kLatency,    // of a level
    kBandwidth,  // the time of a byte on a level
  };
  Kind kind = Kind::kKernels;
  std::string subject;                                 // the type or the level
  OperationClass operation = OperationClass::kMatmul;  // of kKernels
  std::string name() const;  // "matmul on core", "launch on core", "latency of memory"
};

/// All of them: of each type those of kernels by class, the launch and the copies; of each level of
/// links, inside machines and between them, the latency and the bandwidth. Levels of one name share
/// their factors. Direct links, and levels that an oversubscription describes, have none for their
/// bandwidth.
std::vector<Constant> constants_of(const ClusterDescription& description);

/// The description in which each constant takes `factor` times its time: factors of kernels and
/// launches become factors of the file (time_factor, launch_factor), the others new values.
///
///   source   for ClusterDescription::sources of what changes: "calibrated, ..."; the name of the
///            constant and its factor are added
ClusterDescription with_factors(const ClusterDescription& description,
                                std::span<const Constant> constants,
                                std::span<const double> factors, const std::string& source);

}  // namespace tessera
