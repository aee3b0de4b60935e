#include "tasks/register_table.h"

#include <string>

#include "base/tensor/tensor.h"

namespace tessera {
namespace {

/// Of one of each micro-batch.
MicroBatch in_micro_batch(const RegisterForm& form, int micro_batch) {
  MicroBatch part = form.micro_batch;
  if (part.index < 0) return part;  // a copy, for one pass, of what is there once a step
  part.index = micro_batch;
  if (part.dim < 0) return part;
  const int64_t chunks = form.chunk.dim == part.dim ? form.chunk.count : 1;
  part.begin = micro_batch * form.type->shape[part.dim] * chunks;
  return part;
}

}  // namespace

RegisterTable::RegisterTable(IndexedVector<RegisterFormIndex, RegisterForm> forms,
                             RegisterNumbering numbering,
                             IndexedVector<RegisterIndex, int64_t> offsets)
    : forms_(std::move(forms)),
      numbering_(std::make_shared<RegisterNumbering>(std::move(numbering))),
      offsets_(std::move(offsets)),
      sum_names_(forms_.size()) {
  for (RegisterFormIndex form : forms_.indices())
    if (numbering_->repeats(form) == Repeats::kSum)
      sum_names_[form] = forms_[form].name + ".sum #" + std::string(1, NumberedText::kMark);
}

RegisterIndex RegisterTable::push_back(RegisterForm form, int64_t offset) {
  // The numbering that others have does not change.
  if (numbering_.use_count() > 1) numbering_ = std::make_shared<RegisterNumbering>(*numbering_);
  forms_.push_back(std::move(form));
  offsets_.push_back(offset);
  sum_names_.push_back({});
  return numbering_->add_once();
}

Register RegisterTable::operator[](RegisterIndex reg) const {
  const RegisterFormIndex index = numbering_->form_of(reg);
  const RegisterForm& form = forms_[index];
  const Repeats repeats = numbering_->repeats(index);
  const bool is_each = repeats == Repeats::kEach || repeats == Repeats::kInput;
  const bool is_variable =
      form.storage == Register::Storage::kVariable && numbering_->may_be_in_variable(reg);
  const int micro_batch = numbering_->micro_batch_of(reg);
  const bool is_sum_so_far =
      repeats == Repeats::kSum && micro_batch + 1 < numbering_->micro_batches();
  return {.name = is_sum_so_far ? NumberedTextView(sum_names_[index], micro_batch)
                                : NumberedTextView(form.name, is_each ? micro_batch : -1),
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

Bytes slot_stride(const Register& reg) {
  return Bytes(align_up(reg.size.value()));
}
Bytes slot_stride(const RegisterForm& form) {
  return Bytes(align_up(form.size.value()));
}

Bytes total_size(const Register& reg) {
  return Bytes((reg.slots - 1) * slot_stride(reg).value() + reg.size.value());
}
Bytes total_size(const RegisterForm& form) {
  return Bytes((form.slots - 1) * slot_stride(form).value() + form.size.value());
}

}  // namespace tessera
