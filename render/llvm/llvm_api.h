/* LLVM's C interface, loaded when the first kernel is compiled.
 *
 * Mapping and relocating libLLVM costs a process about 13 ms, which programs
 * that find their kernels in a cache or never run one should not pay; and a
 * machine without LLVM still runs cached and shipped binaries. So the library
 * is not linked: the functions that we use are looked up by name, once.
 */
#ifndef BELL_RENDER_LLVM_LLVM_API_H
#define BELL_RENDER_LLVM_LLVM_API_H

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "base/status.h"

#define LLVM_FN(name) __typeof__(LLVM##name) *name

/* One member per function, in the order of the table in llvm_api.c, which a
 * static_assert there keeps complete. Immutable once loaded. */
struct llvm_api {
    /* machine */
    LLVM_FN(GetVersion);
    LLVM_FN(GetDefaultTargetTriple);
    LLVM_FN(GetHostCPUName);
    LLVM_FN(GetHostCPUFeatures);
    LLVM_FN(GetTargetFromTriple);
    LLVM_FN(CreateTargetMachine);
    LLVM_FN(DisposeTargetMachine);
    LLVM_FN(CreateTargetDataLayout);
    LLVM_FN(DisposeTargetData);
    LLVM_FN(SetModuleDataLayout);
    LLVM_FN(SetTarget);
    LLVM_FN(TargetMachineEmitToMemoryBuffer);
    LLVM_FN(GetBufferStart);
    LLVM_FN(GetBufferSize);
    LLVM_FN(DisposeMemoryBuffer);
    LLVM_FN(DisposeMessage);
    LLVM_FN(InstallFatalErrorHandler);
    /* context, module */
    LLVM_FN(ContextCreate);
    LLVM_FN(ContextDispose);
    LLVM_FN(ContextSetDiagnosticHandler);
    LLVM_FN(GetDiagInfoSeverity);
    LLVM_FN(GetDiagInfoDescription);
    LLVM_FN(ModuleCreateWithNameInContext);
    LLVM_FN(DisposeModule);
    LLVM_FN(PrintModuleToString);
    LLVM_FN(AddFunction);
    LLVM_FN(SetFunctionCallConv);
    LLVM_FN(GetNamedFunction);
    LLVM_FN(GetFirstBasicBlock);
    LLVM_FN(GetFirstInstruction);
    LLVM_FN(GetNextInstruction);
    LLVM_FN(InstructionClone);
    LLVM_FN(InsertIntoBuilder);
    LLVM_FN(CreateMemoryBufferWithMemoryRangeCopy);
    LLVM_FN(ParseIRInContext);
    LLVM_FN(GetParam);
    LLVM_FN(AppendBasicBlockInContext);
    LLVM_FN(CreateStringAttribute);
    LLVM_FN(CreateEnumAttribute);
    LLVM_FN(GetEnumAttributeKindForName);
    LLVM_FN(AddAttributeAtIndex);
    LLVM_FN(AddGlobal);
    LLVM_FN(AddGlobalInAddressSpace);
    LLVM_FN(SetInitializer);
    LLVM_FN(SetGlobalConstant);
    LLVM_FN(SetLinkage);
    LLVM_FN(SetAlignment);
    LLVM_FN(SetUnnamedAddress);
    LLVM_FN(SetVisibility);
    /* types */
    LLVM_FN(VoidTypeInContext);
    LLVM_FN(IntTypeInContext);
    LLVM_FN(HalfTypeInContext);
    LLVM_FN(BFloatTypeInContext);
    LLVM_FN(FloatTypeInContext);
    LLVM_FN(DoubleTypeInContext);
    LLVM_FN(PointerTypeInContext);
    LLVM_FN(VectorType);
    LLVM_FN(ArrayType2);
    LLVM_FN(FunctionType);
    LLVM_FN(TypeOf);
    LLVM_FN(GetInlineAsm);
    /* constants */
    LLVM_FN(ConstInt);
    LLVM_FN(ConstNull);
    LLVM_FN(ConstVector);
    LLVM_FN(ConstBitCast);
    LLVM_FN(GetPoison);
    LLVM_FN(GetUndef);
    LLVM_FN(IsConstant);
    /* metadata, intrinsics */
    LLVM_FN(MDStringInContext2);
    LLVM_FN(MDNodeInContext2);
    LLVM_FN(MetadataAsValue);
    LLVM_FN(ValueAsMetadata);
    LLVM_FN(GlobalSetMetadata);
    LLVM_FN(SetMetadata);
    LLVM_FN(GetMDKindIDInContext);
    LLVM_FN(LookupIntrinsicID);
    LLVM_FN(GetIntrinsicDeclaration);
    LLVM_FN(IntrinsicGetType);
    /* instructions */
    LLVM_FN(CreateBuilderInContext);
    LLVM_FN(DisposeBuilder);
    LLVM_FN(PositionBuilderAtEnd);
    LLVM_FN(GetInsertBlock);
    LLVM_FN(BuildRetVoid);
    LLVM_FN(BuildBr);
    LLVM_FN(BuildCondBr);
    LLVM_FN(BuildPhi);
    LLVM_FN(AddIncoming);
    LLVM_FN(BuildCall2);
    LLVM_FN(BuildAlloca);
    LLVM_FN(BuildLoad2);
    LLVM_FN(BuildStore);
    LLVM_FN(BuildGEP2);
    LLVM_FN(BuildCast);
    LLVM_FN(BuildBinOp);
    LLVM_FN(BuildNeg);
    LLVM_FN(BuildFNeg);
    LLVM_FN(BuildICmp);
    LLVM_FN(BuildFCmp);
    LLVM_FN(BuildSelect);
    LLVM_FN(BuildInsertElement);
    LLVM_FN(BuildExtractElement);
    LLVM_FN(BuildShuffleVector);
    /* passes, checks */
    LLVM_FN(VerifyModule);
    LLVM_FN(CreatePassBuilderOptions);
    LLVM_FN(DisposePassBuilderOptions);
    LLVM_FN(RunPasses);
    LLVM_FN(GetErrorMessage);
    LLVM_FN(DisposeErrorMessage);
};

#undef LLVM_FN

/* The loaded interface, with the host's code generator initialised and the
 * fatal-error trap installed. Thread safe. BELL_E_UNSUPPORTED where there is
 * no LLVM 19, saying how to get it. */
BELL_MUST_CHECK bell_status llvm_api_get(const struct llvm_api **out_api);

/* Initialises the code generator for AMD GPUs, once. BELL_E_UNSUPPORTED where
 * this LLVM was built without it. */
BELL_MUST_CHECK bell_status llvm_api_amdgpu(void);

/* The same for processors of the kind that the host is not: AArch64 on x86-64,
 * and the other way round. */
BELL_MUST_CHECK bell_status llvm_api_foreign(void);

/* Runs `fn(arg)`. Where LLVM reports a fatal error inside it, which would
 * normally end the process, gives BELL_E_COMPILE with its words instead; the
 * LLVM objects in use are then lost, on purpose. Not reentrant. */
BELL_MUST_CHECK bell_status llvm_guard(void (*fn)(void *arg), void *arg);

#endif
