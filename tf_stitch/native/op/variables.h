// The resource variables of one kernel call, locked as TensorFlow's own assign and read kernels lock them.
#pragma once
#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "op/placement.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"

namespace tf_stitch {

class VariableSet {
 public:
  VariableSet() = default;
  ~VariableSet() { Unlock(); }
  VariableSet(const VariableSet&) = delete;
  VariableSet& operator=(const VariableSet&) = delete;

  // These variables, whose mutexes are sorted and each there once, and whose names are for messages.
  void Take(const std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>>& variables,
            const std::vector<tensorflow::mutex*>& mutexes, const std::vector<std::string>* names) {
    variables_.reserve(variables.size());
    for (const auto& variable : variables) variables_.push_back(variable.GetNewRef());
    mutexes_.assign(mutexes.begin(), mutexes.end());
    names_ = names;
  }

  // Finds the variables of inputs [first, first + count).
  absl::Status Lookup(tensorflow::OpKernelContext* ctx, int first, int count) {
    for (int i = first; i < first + count; ++i) {
      tensorflow::core::RefCountPtr<tensorflow::Var> variable;
      const tensorflow::ResourceHandle& handle = tensorflow::HandleFromInput(ctx, i);
      const absl::Status found = tensorflow::LookupResource(ctx, handle, &variable);
      if (!found.ok()) {
        return absl::FailedPreconditionError(
            absl::StrCat("Could not find variable ", handle.name(), ". This could mean that the variable has been ",
                         "deleted. In TF1, it can also mean the variable is uninitialized. ", found.message()));
      }
      mutexes_.push_back(variable->mu());
      variables_.push_back(std::move(variable));
    }
    std::sort(mutexes_.begin(), mutexes_.end());  // address order: the order all of TensorFlow locks in
    mutexes_.erase(std::unique(mutexes_.begin(), mutexes_.end()), mutexes_.end());
    return absl::OkStatus();
  }

  void Lock(bool exclusive) {
    for (tensorflow::mutex* mutex : mutexes_) exclusive ? mutex->lock() : mutex->lock_shared();
    held_ = exclusive ? Held::kExclusive : Held::kShared;
  }

  void Unlock() {
    if (held_ == Held::kNone) return;
    for (tensorflow::mutex* mutex : mutexes_) held_ == Held::kExclusive ? mutex->unlock() : mutex->unlock_shared();
    held_ = Held::kNone;
  }

  // Under a lock. `first` is the op input of the first variable, for the name in the message.
  absl::Status CheckValues(tensorflow::OpKernelContext* ctx, int first) const {
    for (int i = 0; i < size(); ++i) {
      const char* problem = nullptr;
      if (!variables_[i]->is_initialized) {
        problem = ". This could mean that the variable was uninitialized.";
      } else if (!tensorflow::DataTypeCanUseMemcpy(tensor(i).dtype())) {
        problem = ": its type has no plain memory";
      }
      if (problem == nullptr) continue;
      if (names_ != nullptr) {
        return absl::FailedPreconditionError(absl::StrCat("Error while reading resource variable ", (*names_)[i],
                                                          problem));
      }
      const tensorflow::ResourceHandle& handle = tensorflow::HandleFromInput(ctx, first + i);
      return absl::FailedPreconditionError(absl::StrCat("Error while reading resource variable ", handle.name(),
                                                        " from Container: ", handle.container(), problem));
    }
    return absl::OkStatus();
  }

  // Whether one has none yet, if the lock is held: a region may be the first to give it one. Its kernels cannot, since
  // their buffers are as large as what variables hold.
  bool WantValues() const {
    return held_ != Held::kNone && std::any_of(variables_.begin(), variables_.end(),
                                               [](const auto& one) { return !one->is_initialized; });
  }

  // In constant time where no variable is passed twice, as is usual: train steps have hundreds.
  bool Duplicated(int index) const {
    if (mutexes_.size() == variables_.size()) return false;
    for (int i = 0; i < size(); ++i) {
      if (i != index && variables_[i].get() == variables_[index].get()) return true;
    }
    return false;
  }

  // The first variable that is the same resource as this one.
  int First(int index) const {
    int first = 0;
    while (variables_[first].get() != variables_[index].get()) ++first;
    return first;
  }

  // Under an exclusive lock: makes the buffer ours alone, so that readers of the old value keep it.
  absl::Status Own(tensorflow::OpKernelContext* ctx, const Placement& placement, int index) {
    tensorflow::Tensor* current = variables_[index]->tensor();
    if (current->RefCountIsOne() || current->TotalBytes() == 0) return absl::OkStatus();
    tensorflow::Tensor copy;
    TF_RETURN_IF_ERROR(AllocateLike(ctx, *current, &copy));
    TF_RETURN_IF_ERROR(CopyBytes(placement, copy.data(), current->data(), current->TotalBytes()));
    *current = copy;
    return absl::OkStatus();
  }

  // Under an exclusive lock.
  void Assign(int index, const tensorflow::Tensor& value) {
    *variables_[index]->tensor() = value;
    variables_[index]->is_initialized = true;
  }

  // Under a lock: the value as it is now. Later updates leave it alone.
  absl::Status Snapshot(tensorflow::OpKernelContext* ctx, const Placement& placement, int index,
                        tensorflow::Tensor* value) const {
    if (!variables_[index]->copy_on_read_mode.load()) {
      *value = tensor(index);
      return absl::OkStatus();
    }
    TF_RETURN_IF_ERROR(AllocateLike(ctx, tensor(index), value));
    return CopyBytes(placement, value->data(), tensor(index).data(), value->TotalBytes());
  }

  static absl::Status AllocateLike(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& like,
                                   tensorflow::Tensor* tensor, const tensorflow::AllocationAttributes& allocation = {}) {
    TF_RETURN_IF_ERROR(PlantedFault());
    tensorflow::AllocatorAttributes attributes;  // those of TensorFlow's own variable buffers
    attributes.set_gpu_compatible(true);
    attributes.set_nic_compatible(true);
    return ctx->allocate_temp(like.dtype(), like.shape(), tensor, attributes, allocation);
  }

  int size() const { return static_cast<int>(variables_.size()); }
  const tensorflow::Tensor& tensor(int index) const { return *variables_[index]->tensor(); }

 private:
  enum class Held { kNone, kShared, kExclusive };

  absl::InlinedVector<tensorflow::core::RefCountPtr<tensorflow::Var>, 8> variables_;
  absl::InlinedVector<tensorflow::mutex*, 8> mutexes_;
  Held held_ = Held::kNone;
  const std::vector<std::string>* names_ = nullptr;
};

// Variables that are no inputs of a node: it names them, "container\nname", or its function holds their handles. They are
// looked up in the node's first call, and kept: who reads or restores them does so in place.
class KeptVariables {
 public:
  explicit KeptVariables(std::vector<std::string> names) : names_(std::move(names)) {}

  // Handles that count references.
  explicit KeptVariables(const std::vector<tensorflow::ResourceHandle>& handles) : handles_(handles.size()) {
    for (std::size_t i = 0; i < handles.size(); ++i) {
      handles_[i] = tensorflow::Tensor(tensorflow::DT_RESOURCE, tensorflow::TensorShape({}));
      handles_[i].scalar<tensorflow::ResourceHandle>()() = handles[i];
      names_.push_back(absl::StrCat(handles[i].name(), " from Container: ", handles[i].container()));
    }
  }

  int size() const { return static_cast<int>(names_.size()); }

  // What ops would have for inputs in their place; none of names.
  const std::vector<tensorflow::Tensor>& handles() const { return handles_; }

  absl::Status Find(tensorflow::OpKernelContext* ctx, VariableSet* variables) {
    {
      const tensorflow::tf_shared_lock lock(mutex_);
      if (TF_PREDICT_TRUE(!found_.empty())) {
        variables->Take(found_, mutexes_, &names_);
        return absl::OkStatus();
      }
    }
    const tensorflow::mutex_lock lock(mutex_);
    if (found_.empty()) TF_RETURN_IF_ERROR(LookUp(ctx->resource_manager()));
    variables->Take(found_, mutexes_, &names_);
    return absl::OkStatus();
  }

 private:
  using Found = tensorflow::core::RefCountPtr<tensorflow::Var>;

  absl::Status LookUp(tensorflow::ResourceMgr* resources) {
    std::vector<Found> found;
    mutexes_.clear();
    for (int i = 0; i < size(); ++i) {
      TF_ASSIGN_OR_RETURN(Found variable, handles_.empty() ? Named(resources, names_[i]) : Held(handles_[i]));
      mutexes_.push_back(variable->mu());
      found.push_back(std::move(variable));
    }
    std::sort(mutexes_.begin(), mutexes_.end());
    mutexes_.erase(std::unique(mutexes_.begin(), mutexes_.end()), mutexes_.end());
    found_ = std::move(found);
    return absl::OkStatus();
  }

  static absl::StatusOr<Found> Held(const tensorflow::Tensor& handle) {
    TF_ASSIGN_OR_RETURN(tensorflow::Var * variable,
                        handle.scalar<tensorflow::ResourceHandle>()().GetResource<tensorflow::Var>());
    variable->Ref();
    return Found(variable);
  }

  static absl::StatusOr<Found> Named(tensorflow::ResourceMgr* resources, const std::string& name) {
    const std::size_t end = name.find('\n');
    if (end == std::string::npos) return absl::InvalidArgumentError("tf_stitch: a variable's name has no container");
    const std::string container = end == 0 ? resources->default_container() : name.substr(0, end);
    tensorflow::Var* variable = nullptr;
    const absl::Status status = resources->Lookup<tensorflow::Var, false>(container, name.substr(end + 1), &variable);
    if (!status.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("Could not find variable ", name.substr(end + 1), ". This could mean that the variable has ",
                       "been deleted. In TF1, it can also mean the variable is uninitialized. ", status.message()));
    }
    return Found(variable);
  }

  std::vector<std::string> names_;
  std::vector<tensorflow::Tensor> handles_;
  tensorflow::mutex mutex_;
  std::vector<Found> found_;
  std::vector<tensorflow::mutex*> mutexes_;
};

}  // namespace tf_stitch
