// The registers of a task graph. It holds what the micro-batches have in common once, and shows a
// register of each.
#pragma once

#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/indexed_lists.h"
#include "task_graph/tasks/internal/register_numbering.h"

namespace tessera {

using TaskId = Index<struct TaskTag>;  // in TaskGraph::tasks

/// A piece of memory that one task fills and others read. It refers to the table.
struct Register {
  using Storage = RegisterForm::Storage;

  const NameTemplateView name;  // of one of several micro-batches with its number: "y #2"
  const CopyOnWrite<TensorType>& type;
  const MicroBatch micro_batch;
  const DistAttr& attr;
  const MeshIndex mesh;
  const int slots;
  const Storage storage;
  /// Of kArena: bytes from the start of its mesh's arena, the same for every rank; planned for the
  /// rank of the greatest weights.
  const int64_t offset;
  const Bytes size;
  const int variable;
  const Chunk& chunk;
  const TaskId producer;
  /// Other tasks that read it, on this or on other ranks (an exchange reads the registers of its
  /// senders); ascending.
  const std::span<const TaskId> consumers;
};
/// Bytes from one slot of a register to the next: its size, up to the next aligned offset.
Bytes slot_stride(const Register& reg);
Bytes slot_stride(const RegisterForm& form);
/// Bytes that all its slots take.
Bytes total_size(const Register& reg);
Bytes total_size(const RegisterForm& form);

/// The part of the tensor that the register of a form holds in a micro-batch.
MicroBatch in_micro_batch(const RegisterForm& form, int micro_batch);

/// Which tasks fill and read each register.
struct RegisterLinks {
  IndexedVector<RegisterIndex, TaskId> producers;
  IndexedLists<RegisterIndex, TaskId> consumers;
};

/// Visits the elements of a table in the order of their indices. An element is made when it is
/// asked for.
template <class Table, class IndexType>
class TableIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using difference_type = std::ptrdiff_t;
  using value_type = decltype(std::declval<const Table&>()[IndexType()]);
  using pointer = const value_type*;
  using reference = value_type;

  TableIterator() = default;
  TableIterator(const Table& table, IndexType at) : table_(&table), at_(at) {}
  value_type operator*() const { return (*table_)[at_]; }
  TableIterator& operator++() {
    ++at_;
    return *this;
  }
  void operator++(int) { ++at_; }
  TableIterator operator+(std::ptrdiff_t count) const {
    TableIterator result = *this;
    while (count-- > 0) ++result.at_;
    return result;
  }
  bool operator==(const TableIterator& other) const { return at_ == other.at_; }

 private:
  const Table* table_ = nullptr;
  IndexType at_ = {};
};

class RegisterTable {
 public:
  RegisterTable() : numbering_(std::make_shared<RegisterNumbering>()) {}
  ///   offsets  of the registers in arenas
  RegisterTable(IndexedVector<RegisterFormIndex, RegisterForm> forms, RegisterNumbering numbering,
                IndexedVector<RegisterIndex, int64_t> offsets);

  /// A further register with a form of its own.
  RegisterIndex push_back(RegisterForm form, int64_t offset = 0);

  int size() const { return numbering_->size(); }
  bool contains(RegisterIndex reg) const { return numbering_->contains(reg); }
  IndexRange<RegisterIndex> indices() const { return numbering_->indices(); }
  RegisterIndex end_index() const { return RegisterIndex(size()); }
  ///   requires  `reg` is in [0, size())
  Register operator[](RegisterIndex reg) const {
    const RegisterFormIndex index = numbering_->form_of(reg);
    const RegisterForm& form = forms_[index];
    const Repeats repeats = numbering_->repeats(index);
    const int micro_batch = repeats == Repeats::kOnce ? -1 : numbering_->micro_batch_of(reg);
    const bool is_each = repeats == Repeats::kEach || repeats == Repeats::kInput;
    const bool is_sum_so_far =
        repeats == Repeats::kSum && micro_batch + 1 < numbering_->micro_batches();
    const bool is_variable =
        form.storage == Register::Storage::kVariable && numbering_->may_be_in_variable(reg);
    return {.name = is_sum_so_far ? NameTemplateView(sum_names_[index], micro_batch)
                                  : NameTemplateView(form.name, is_each ? micro_batch : -1),
            .type = form.type,
            .micro_batch = is_each         ? in_micro_batch(form, micro_batch)
                           : is_sum_so_far ? MicroBatch{micro_batch, -1, 0}
                                           : form.micro_batch,
            .attr = form.attr,
            .mesh = form.mesh,
            .slots = form.slots,
            .storage = is_variable ? Register::Storage::kVariable : Register::Storage::kArena,
            .offset = offsets_[reg],
            .size = form.size,
            .variable = is_variable ? form.variable : -1,
            .chunk = form.chunk,
            .producer = links_.producers.contains(reg) ? links_.producers[reg] : TaskId(),
            .consumers =
                links_.consumers.contains(reg) ? links_.consumers[reg] : std::span<const TaskId>()};
  }
  ///   throws  InternalError when `reg` is outside of the table
  Register at(RegisterIndex reg) const {
    ensure(contains(reg), "an index is outside of its table");
    return (*this)[reg];
  }
  auto begin() const {
    return TableIterator<RegisterTable, RegisterIndex>(*this, RegisterIndex(0));
  }
  auto end() const { return TableIterator<RegisterTable, RegisterIndex>(*this, end_index()); }

  const IndexedVector<RegisterFormIndex, RegisterForm>& forms() const { return forms_; }
  const RegisterNumbering& numbering() const { return *numbering_; }
  std::shared_ptr<const RegisterNumbering> shared_numbering() const { return numbering_; }

  // Changes of what is there; that of a form changes the registers of all its micro-batches.
  IndexedVector<RegisterFormIndex, RegisterForm>& forms() { return forms_; }
  RegisterForm& form(RegisterIndex reg) { return forms_[numbering_->form_of(reg)]; }
  int64_t& offset(RegisterIndex reg) { return offsets_[reg]; }
  void set_links(RegisterLinks links) { links_ = std::move(links); }

 private:
  IndexedVector<RegisterFormIndex, RegisterForm> forms_;
  std::shared_ptr<RegisterNumbering> numbering_;  // the table of tasks has it, too
  IndexedVector<RegisterIndex, int64_t> offsets_;
  RegisterLinks links_;
  /// The names of sums up to a micro-batch.
  IndexedVector<RegisterFormIndex, NameTemplate> sum_names_;
};

}  // namespace tessera
