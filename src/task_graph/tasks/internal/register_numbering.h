// The registers of a step by number: each form stands for one, or for one of each micro-batch.
#pragma once

#include <utility>

#include "base/error.h"
#include "task_graph/tasks/internal/task_forms.h"

namespace tessera {

/// A register of a step: a register form in one micro-batch, or once a step.
using RegisterIndex = Index<struct RegisterTag>;

/// How many registers a form stands for.
enum class Repeats {
  kOnce,
  kEach,   // one for each micro-batch
  kInput,  // the same; those of all micro-batches are in the feed
  kSame,   // the same; all readers read the first one
  kSum,    // the sum up to each micro-batch but the first; the last one is complete
};

/// The registers of one form are neighbours, with the micro-batches in ascending order.
class RegisterNumbering {
 public:
  RegisterNumbering() = default;  // of no registers
  ///   time  O(registers)
  RegisterNumbering(int micro_batches, IndexedVector<RegisterFormIndex, Repeats> repeats)
      : count_(micro_batches), repeats_(std::move(repeats)) {
    for (RegisterFormIndex form : repeats_.indices()) {
      const int first = repeats_[form] == Repeats::kSum ? 1 : 0;
      firsts_.push_back(forms_.end_index() - first);
      forms_.resize(forms_.size() + (repeats_[form] == Repeats::kOnce ? 1 : count_ - first), form);
    }
  }

  /// A further form that stands for one register.
  RegisterIndex add_once() {
    const RegisterFormIndex form = repeats_.push_back(Repeats::kOnce);
    firsts_.push_back(forms_.end_index());
    return forms_.push_back(form);
  }

  int micro_batches() const { return count_; }
  Repeats repeats(RegisterFormIndex form) const { return repeats_[form]; }
  int size() const { return forms_.size(); }
  IndexRange<RegisterIndex> indices() const { return forms_.indices(); }
  bool contains(RegisterIndex reg) const { return forms_.contains(reg); }
  bool contains(RegisterFormIndex form) const { return repeats_.contains(form); }
  IndexRange<RegisterIndex> at(RegisterFormIndex form) const {
    const RegisterIndex first = firsts_[form];
    switch (repeats_[form]) {
      case Repeats::kOnce: return {first, first + 1};
      case Repeats::kSum: return {first + 1, first + count_};
      default: return {first, first + count_};
    }
  }
  RegisterFormIndex form_of(RegisterIndex reg) const { return forms_[reg]; }
  int micro_batch_of(RegisterIndex reg) const { return reg - firsts_[forms_[reg]]; }
  /// Only one register of a form may be in the memory of a variable: a whole value.
  bool may_be_in_variable(RegisterIndex reg) const {
    const RegisterFormIndex form = form_of(reg);
    return (repeats_[form] != Repeats::kSame && repeats_[form] != Repeats::kSum) ||
           reg == whole(form);
  }

  /// What a kernel or an exchange that writes `form` writes in a micro-batch, or (-1) once a step.
  RegisterIndex written(RegisterFormIndex form, int micro_batch) const {
    return firsts_[form] + (repeats_[form] == Repeats::kOnce ? 0 : micro_batch);
  }
  /// What one that reads `form` reads in a micro-batch, or (-1) once a step.
  RegisterIndex read(RegisterFormIndex form, int micro_batch) const {
    if (is_whole(form)) return whole(form);
    ensure(micro_batch >= 0, "a value of each micro-batch is read in a micro-batch");
    return firsts_[form] + micro_batch;
  }
  /// The value of the whole step.
  ///   requires  `form` is no value of each micro-batch
  RegisterIndex whole(RegisterFormIndex form) const {
    ensure(is_whole(form), "what is used once a step is made once a step");
    return firsts_[form] + (repeats_[form] == Repeats::kSum ? count_ - 1 : 0);
  }
  /// The sum to which a kernel that accumulates `operand` in `sum` adds it, in a micro-batch that
  /// is not the first one: of the first one it is the operand.
  RegisterIndex sum_before(RegisterFormIndex sum, RegisterFormIndex operand,
                           int micro_batch) const {
    return micro_batch == 1 ? read(operand, 0) : firsts_[sum] + (micro_batch - 1);
  }

 private:
  bool is_whole(RegisterFormIndex form) const {
    return repeats_[form] == Repeats::kOnce || repeats_[form] == Repeats::kSum ||
           repeats_[form] == Repeats::kSame;
  }

  int count_ = 1;
  IndexedVector<RegisterFormIndex, Repeats> repeats_;
  /// The register of the first micro-batch. There is none of a sum, but that of the second follows.
  IndexedVector<RegisterFormIndex, RegisterIndex> firsts_;
  IndexedVector<RegisterIndex, RegisterFormIndex> forms_;
};

}  // namespace tessera
