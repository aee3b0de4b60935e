#include "ir/ops/cast_as.h"

namespace tessera::detail {

ValueId as_dtype(Builder& builder, ValueId value, DType dtype) {
  return builder.type(value).dtype == dtype ? value : builder.cast(value, dtype);
}

}  // namespace tessera::detail
