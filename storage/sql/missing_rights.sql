-- Which of these rights the session's user lacks. A table that is missing is an error (42P01).
SELECT q.privilege || ' on ' || q.table_name
  FROM unnest($1::TEXT[], $2::TEXT[]) AS q (table_name, privilege)
 WHERE NOT has_table_privilege(q.table_name, q.privilege)
 ORDER BY q.table_name, q.privilege;
