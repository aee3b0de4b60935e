// Kernels that a program brings along. They are asked before the built-in ones; there is no global
// list to register in.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"

namespace tessera {

/// A kernel of the user's own.
///
///   bind      checks the call once (ensure() of base/error.h) and returns what runs: see
///   BoundKernel.
///             The compiler binds, too, at the rank with the largest parts, to learn how much
///             workspace to plan. threads: the ranks bind on their own threads, several at once
///   in_place  may output 0 use the memory of any input of the same type? Only where element i
///   depends on elements i only
struct NamedKernel {
  std::string name;
  std::function<BoundKernel(const LocalCall&)> bind;
  bool in_place = false;
};

/// The kernels of one program, by name. Task graphs carry them.
///
///   threads  never changes, so that all ranks may read it
class KernelSet {
 public:
  /// throws  UserError (65) when one has no name or no binder, or a name occurs twice or is that of
  /// a built-in kernel
  explicit KernelSet(std::vector<NamedKernel> kernels);

  /// nullptr: it is not one of these.
  const NamedKernel* find(std::string_view name) const;
  const std::vector<NamedKernel>& kernels() const { return kernels_; }

 private:
  std::vector<NamedKernel> kernels_;
};

}  // namespace tessera
