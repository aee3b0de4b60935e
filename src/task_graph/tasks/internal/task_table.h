// The tasks of a task graph. It holds what the micro-batches have in common once, and shows a task
// of each.
#pragma once

#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel_set.h"
#include "task_graph/tasks/internal/register_table.h"
#include "task_graph/tasks/pass_kind.h"

namespace tessera {

/// The registers that a kernel reads or writes. They are found when they are asked for.
class RegisterList {
 public:
  /// Of the forms in a micro-batch. It refers to them and to the numbering.
  ///   first  a register before them, or none
  RegisterList(std::span<const RegisterFormIndex> forms, const RegisterNumbering& numbering,
               int micro_batch, bool is_written, RegisterIndex first = {})
      : forms_(forms),
        numbering_(&numbering),
        micro_batch_(micro_batch),
        is_written_(is_written),
        first_(first) {}

  size_t size() const { return forms_.size() + before(); }
  bool empty() const { return size() == 0; }
  ///   requires  `i` is in [0, size())
  RegisterIndex operator[](size_t i) const {
    if (i < before()) return first_;
    const RegisterFormIndex form = forms_[i - before()];
    return is_written_ ? numbering_->written(form, micro_batch_)
                       : numbering_->read(form, micro_batch_);
  }
  RegisterIndex front() const { return (*this)[0]; }
  RegisterIndex back() const { return (*this)[size() - 1]; }
  auto begin() const { return TableIterator<RegisterList, size_t>(*this, 0); }
  auto end() const { return TableIterator<RegisterList, size_t>(*this, size()); }
  operator std::vector<RegisterIndex>() const { return {begin(), end()}; }

 private:
  size_t before() const { return first_.is_none() ? 0 : 1; }

  std::span<const RegisterFormIndex> forms_;
  const RegisterNumbering* numbering_;
  int micro_batch_;
  bool is_written_;
  RegisterIndex first_;
};

/// A kernel of a compute task in one micro-batch. It refers to the table.
struct KernelStep {
  const CopyOnWrite<KernelCall> call;
  const RegisterList inputs;
  const RegisterList outputs;
  /// None, or a register that only this step uses and its task produces.
  const RegisterIndex workspace;
  const NameTemplate& op;
  const Control* const control;  // nullptr: it is no While and no If
  const KernelPurpose purpose;
};
/// May the kernel write its first result over `input`, which has the type of the result?
bool may_write_over(const KernelStep& step, RegisterIndex input, const KernelSet* own);

/// The kernels of a task in one micro-batch.
class KernelSteps {
 public:
  KernelSteps(const std::vector<KernelForm>& forms, const RegisterNumbering& numbering,
              int micro_batch)
      : forms_(&forms), numbering_(&numbering), micro_batch_(micro_batch) {}

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using difference_type = std::ptrdiff_t;
    using value_type = KernelStep;
    using pointer = const KernelStep*;
    using reference = KernelStep;

    Iterator() = default;
    Iterator(const KernelSteps& list, size_t at) : list_(&list), at_(at) { skip(); }
    KernelStep operator*() const { return list_->step((*list_->forms_)[at_]); }
    Iterator& operator++() {
      ++at_;
      skip();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    void skip() {
      while (at_ < list_->forms_->size() && !list_->is_called((*list_->forms_)[at_])) ++at_;
    }

    const KernelSteps* list_ = nullptr;
    size_t at_ = 0;
  };

  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, forms_->size()}; }
  bool empty() const { return begin() == end(); }
  ///   time  O(kernels of the task)
  size_t size() const { return static_cast<size_t>(std::distance(begin(), end())); }
  KernelStep operator[](size_t i) const {
    return *std::next(begin(), static_cast<std::ptrdiff_t>(i));
  }
  KernelStep front() const { return *begin(); }
  KernelStep back() const { return (*this)[size() - 1]; }

  /// Is the kernel called in this micro-batch? A sum begins with the second one.
  bool is_called(const KernelForm& form) const { return micro_batch_ != 0 || !adds(form); }
  /// The sum to which it adds its operand; none of other kernels.
  RegisterIndex sum_before(const KernelForm& form) const {
    return micro_batch_ > 0 && adds(form)
               ? numbering_->sum_before(form.outputs.front(), form.inputs.front(), micro_batch_)
               : RegisterIndex();
  }
  KernelStep step(const KernelForm& form) const;

 private:
  /// Does it accumulate over micro-batches?
  bool adds(const KernelForm& form) const {
    return form.purpose == KernelPurpose::kAccumulate &&
           numbering_->repeats(form.outputs.front()) == Repeats::kSum;
  }

  const std::vector<KernelForm>* forms_;
  const RegisterNumbering* numbering_;
  int micro_batch_;
};

/// A run of kernels, an exchange, or a copy in one micro-batch. It refers to the table.
struct Task {
  using Kind = TaskForm::Kind;

  const NameTemplateView name;
  const Kind kind;
  const Role role;
  const int micro_batch;  // -1: once a step
  /// Of a pipeline that has an order; none: the task runs once a step.
  const std::optional<PassKind> pass;
  const MeshIndex mesh;     // the ranks that execute it; of an exchange the receivers' mesh
  const KernelSteps steps;  // of a compute task
  const std::vector<ExchangePart>& parts;
  /// Of an exchange from other ranks: once a rank is past this task in the order list, it may issue
  /// the exchange, before its turn. None: at its turn. At its turn a rank waits until it is done.
  const TaskId issue_after;
  const std::span<const RegisterIndex> inputs;   // registers that other tasks fill
  const std::span<const RegisterIndex> outputs;  // registers that other tasks read, or none
  /// Registers whose bytes this task writes over: all their other readers, on every rank, must have
  /// released them before it runs. Only a register that an exchange or another stream reads needs
  /// to be here: the order list protects the others. A register that is filled later in the order
  /// list is here with its content of the step before.
  const std::span<const RegisterIndex> overwrites;
};

/// What a task of a micro-batch has of its own.
struct TaskInstance {
  TaskFormIndex form;
  int micro_batch = -1;
  std::optional<PassKind> pass = std::nullopt;
  TaskId issue_after = {};
};

/// What each task reads and fills.
struct TaskLinks {
  IndexedLists<TaskId, RegisterIndex> inputs;
  IndexedLists<TaskId, RegisterIndex> outputs;
};

class TaskTable {
 public:
  TaskTable() : numbering_(std::make_shared<const RegisterNumbering>()) {}

  TaskFormIndex add_form(TaskForm form) { return forms_.push_back(std::move(form)); }
  TaskId add(TaskInstance instance);
  /// A further task with a form of its own.
  TaskId push_back(TaskForm form) { return add({.form = add_form(std::move(form))}); }

  int size() const { return instances_.size(); }
  bool empty() const { return instances_.empty(); }
  bool contains(TaskId task) const { return instances_.contains(task); }
  IndexRange<TaskId> indices() const { return instances_.indices(); }
  TaskId end_index() const { return instances_.end_index(); }
  ///   requires  `task` is in [0, size())
  Task operator[](TaskId task) const;
  ///   throws  InternalError when `task` is outside of the table
  Task at(TaskId task) const {
    ensure(contains(task), "an index is outside of its table");
    return (*this)[task];
  }
  Task back() const { return (*this)[end_index() - 1]; }
  auto begin() const { return TableIterator<TaskTable, TaskId>(*this, TaskId(0)); }
  auto end() const { return TableIterator<TaskTable, TaskId>(*this, end_index()); }

  const IndexedVector<TaskFormIndex, TaskForm>& forms() const { return forms_; }
  const TaskForm& form_of(TaskId task) const { return forms_[instances_[task].form]; }
  const TaskInstance& instance(TaskId task) const { return instances_[task]; }

  // Changes of what is there; that of a form changes the tasks of all its micro-batches.
  IndexedVector<TaskFormIndex, TaskForm>& forms() { return forms_; }
  TaskForm& form(TaskId task) { return forms_[instances_[task].form]; }
  TaskInstance& instance(TaskId task) { return instances_[task]; }
  std::vector<RegisterIndex>& overwrites(TaskId task) { return overwrites_[task]; }
  void set_links(std::shared_ptr<const RegisterNumbering> numbering, TaskLinks links) {
    numbering_ = std::move(numbering);
    links_ = std::move(links);
  }

 private:
  IndexedVector<TaskFormIndex, TaskForm> forms_;
  IndexedVector<TaskId, TaskInstance> instances_;
  IndexedVector<TaskId, std::vector<RegisterIndex>> overwrites_;
  std::shared_ptr<const RegisterNumbering> numbering_;  // that of the registers
  TaskLinks links_;
};

}  // namespace tessera
