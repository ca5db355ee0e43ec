/* Chains in OpenCL C: what its compilers make one instruction of. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bits.h"
#include "tools/chain/chain_internal.h"

/* `arch` names what a device has: "cl12+fma+fp64". */
static const struct {
    enum chain_kind kind;
    const char *needs, *pragma, *type;
    const char *text;
} cl_insns[] = {
    {CHAIN_FMA_F32, "+fma", "", "float", "$d = fma($a, $b, $c);\n"},
    {CHAIN_FMA_F64, "+fp64", "cl_khr_fp64", "double",
     "$d = fma($a, $b, $c);\n"},
    {CHAIN_MAD_I32, "", "", "uint", "$d = $c * $a + $b;\n"},
};

static void
put_cl(struct chain_text *text, const struct chain *chain, const char *type,
       const char *insn)
{
    const struct chain_form *form = &chain_forms[chain->kind];
    const char *word = form->word_bits == 64 ? "ulong" : "uint";
    struct chain_insn_names names = {.a = "a", .b = "b", .t = type};
    uint32_t i, n = chain->n_chains;

    chain_put(text,
              "__kernel __attribute__((reqd_work_group_size(%u, 1, 1))) void\n"
              "%s(__global uchar *p0, ulong o0, long p1, long p2, long p3)\n{\n"
              "%s t = get_local_id(0) & %u;\n"
              "%s a = as_%s((%s)p2), b = as_%s((%s)p3 + t * (%s)0x%llxul);\n",
              chain->n_threads, chain->name, word, CHAIN_RESULTS - 1, type,
              type, word, type, word, word, (unsigned long long)form->b_thread);
    for (i = 0; i < n; i++)
        chain_put(text, "%s c%u = as_%s(t * (%s)0x%llxul + (%s)0x%llxul);\n",
                  type, i, type, word, (unsigned long long)form->first_thread,
                  word,
                  (unsigned long long)(form->first + i * form->first_chain));
    chain_put(text, "do {\n");
    for (i = 0; i < chain->n_insns; i++) {
        snprintf(names.d, sizeof(names.d), "c%u", i % n);
        memcpy(names.c, names.d, sizeof(names.c));
        chain_put_insn(text, insn, &names);
    }
    chain_put(text, "} while (--p1);\n%s sum = 0;\n", word);
    for (i = 0; i < n; i++)
        chain_put(text, "sum += as_%s(c%u);\n", word, i);
    chain_put(text, "((__global %s *)(p0 + o0))[get_global_id(0)] = sum;\n}\n",
              word);
}

bell_status
chain_make_cl(const struct hcq_device_info *info, struct chain *chain,
              struct chain_text *text, struct render_binary *out)
{
    size_t i;

    for (i = 0; i < ARRAY_LEN(cl_insns); i++) {
        if (cl_insns[i].kind == chain->kind)
            break;
    }
    if (i == ARRAY_LEN(cl_insns))
        return bell_fail(BELL_E_UNSUPPORTED,
                         "there is no kernel by hand in OpenCL C");
    if (!strstr(info->arch, cl_insns[i].needs))
        return chain_lacks(info);
    if (cl_insns[i].pragma[0])
        chain_put(text, "#pragma OPENCL EXTENSION %s : enable\n",
                  cl_insns[i].pragma);
    put_cl(text, chain, cl_insns[i].type, cl_insns[i].text);
    out->data = host_alloc(text->used + 1);
    if (!out->data)
        return bell_fail(BELL_E_NO_MEMORY, "out of memory for a kernel");
    memcpy(out->data, text->bytes, text->used + 1);
    out->size_bytes = text->used + 1;
    return BELL_OK;
}
