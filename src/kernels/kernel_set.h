// Kernels of a user's program. A call looks for its kernel here first, then among the built-in
// ones. There is no global registry.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/work.h"

namespace tessera {

/// A kernel of the user.
///
///   bind       checks the call once (ensure() of base/error.h) and returns a BoundKernel. Several
///              ranks may bind at the same time, on their own threads
///   in_place   true when output 0 may use the memory of any input of the same type: element i must
///              depend only on elements i
///   work       of a call, for costs; nullptr: one operation for each element of the results, and
///              each operand is moved once
///   workspace  of a call, as the bound kernel has it; nullptr: the compiler binds the call of the
///              rank with the largest parts to learn it
struct NamedKernel {
  std::string name;
  std::function<BoundKernel(const LocalCall&)> bind;
  bool in_place = false;
  LocalWork (*work)(const LocalCall&) = nullptr;
  Bytes (*workspace)(const LocalCall&) = nullptr;
};

/// The kernels of one program, by name. Task graphs carry them.
///
///   threads  it never changes, so all ranks may read it
class KernelSet {
 public:
  ///   throws  UserError (65) when one has no name or no binder, or a name occurs twice or is that
  ///           of a built-in kernel
  explicit KernelSet(std::vector<NamedKernel> kernels);

  /// nullptr when the set does not have the kernel.
  const NamedKernel* find(std::string_view name) const;
  const std::vector<NamedKernel>& kernels() const { return kernels_; }

 private:
  std::vector<NamedKernel> kernels_;
};

}  // namespace tessera
