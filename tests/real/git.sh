# git.sh: git init, add, commit, branch, merge, log, status, clone, gc, with fixed dates.
# needs: git
set -eu
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
export GIT_CONFIG_NOSYSTEM=1 GIT_PAGER=cat GIT_TERMINAL_PROMPT=0
git init -q -b main repository
cd repository
for i in $(seq 1 30); do echo "line $i" > "file$i"; done
mkdir folder && ln -s ../file1 folder/link
git add .
git commit -q -m 'first'
git checkout -q -b side
echo side >> file1 && git commit -q -a -m 'side'
git checkout -q main
echo main >> file2 && git commit -q -a -m 'main'
git merge -q -m 'merge' side
git log --oneline --graph --stat
echo new > untracked && rm file3
git status --short
git diff --stat
git gc -q
git fsck --strict
git clone -q . ../clone
git -C ../clone rev-parse HEAD
git grep -n 'line 1' | sort
git archive HEAD | tar -t | wc -l
cd .. && rm -rf repository/.git clone/.git
