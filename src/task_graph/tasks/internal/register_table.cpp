#include "task_graph/tasks/internal/register_table.h"

#include <string>

#include "base/tensor/tensor.h"

namespace tessera {

MicroBatch in_micro_batch(const RegisterForm& form, int micro_batch) {
  MicroBatch part = form.micro_batch;
  if (part.index < 0) return part;  // a copy, for one pass, of what is there once a step
  part.index = micro_batch;
  if (part.dim < 0) return part;
  const int64_t chunks = form.chunk.dim == part.dim ? form.chunk.count : 1;
  part.begin = micro_batch * form.type->shape[part.dim] * chunks;
  return part;
}

RegisterTable::RegisterTable(IndexedVector<RegisterFormIndex, RegisterForm> forms,
                             RegisterNumbering numbering,
                             IndexedVector<RegisterIndex, int64_t> offsets)
    : forms_(std::move(forms)),
      numbering_(std::make_shared<RegisterNumbering>(std::move(numbering))),
      offsets_(std::move(offsets)),
      sum_names_(forms_.size()) {
  for (RegisterFormIndex form : forms_.indices())
    if (numbering_->repeats(form) == Repeats::kSum)
      sum_names_[form] = forms_[form].name + ".sum #" + std::string(1, NameTemplate::kMark);
}

RegisterIndex RegisterTable::push_back(RegisterForm form, int64_t offset) {
  // The numbering that others have does not change.
  if (numbering_.use_count() > 1) numbering_ = std::make_shared<RegisterNumbering>(*numbering_);
  forms_.push_back(std::move(form));
  offsets_.push_back(offset);
  sum_names_.push_back({});
  return numbering_->add_once();
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
