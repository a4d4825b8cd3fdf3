/* list - intrusive doubly linked list. A node is in at most one list; a node outside any list
 * points to itself. */
#ifndef FL_COMMON_BASE_LIST_H
#define FL_COMMON_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct fl_list {
    struct fl_list *next, *prev;
};

#define fl_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define fl_list_each(it, head)             for (struct fl_list *it = (head)->next; it != (head); it = it->next)
#define fl_list_each_safe(it, tmp, head)                                                           \
    for (struct fl_list *it = (head)->next, *tmp = it->next; it != (head); it = tmp, tmp = it->next)

static inline void fl_list_init(struct fl_list *l)
{
    l->next = l->prev = l;
}

static inline bool fl_list_empty(const struct fl_list *l)
{
    return l->next == l;
}

/* at the front: LIFO with _first */
static inline void fl_list_push(struct fl_list *head, struct fl_list *node)
{
    node->next = head->next;
    node->prev = head;
    head->next->prev = node;
    head->next = node;
}

static inline void fl_list_append(struct fl_list *head, struct fl_list *node) /* at the end */
{
    fl_list_push(head->prev, node);
}

static inline void fl_list_remove(struct fl_list *node) /* harmless on a node outside any list */
{
    node->next->prev = node->prev;
    node->prev->next = node->next;
    fl_list_init(node);
}

static inline struct fl_list *fl_list_first(const struct fl_list *head) /* NULL when empty */
{
    return fl_list_empty(head) ? NULL : head->next;
}

static inline struct fl_list *fl_list_last(const struct fl_list *head)
{
    return fl_list_empty(head) ? NULL : head->prev;
}

#endif
